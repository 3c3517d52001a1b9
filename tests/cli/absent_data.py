"""Verbs that predict without the data set on this machine: its shape is known for the set, or stated."""
import json
import os

import support
from support import CliTest

CLUSTER = os.path.join("clusters", "8xa100.cluster.toml")
HOUSES = 'data={name="csv",train="houses.csv",target="price",task="regression"SHAPE}'
SHAPE = ',shape={sample=[3],classes=1,train=80}'


class AbsentData(CliTest):
    def setUp(self):
        super().setUp()
        self.cluster = ["--cluster", os.path.join(support.EXAMPLES, CLUSTER)]

    def houses(self, shape=""):
        return ["--set", HOUSES.replace("SHAPE", shape), "--set", "target=1"]

    def write_houses(self):
        lines = ["rooms,age,kind,price"] + [f"{i % 7},{i},flat,{100 + i}" for i in range(100)]
        self.write("houses.csv", "\n".join(lines) + "\n")

    def test_a_known_set(self):
        cifar = ["--set", "data={name=\"cifar10\"}"]
        says = "data: CIFAR-10 is not here; assumed: 50,000 training samples of [3, 32, 32], 10 classes"
        for verb in (["simulate", "e.toml", *self.cluster, "--strategies", "data", "--json", "s.json"],
                     ["plan", "best", "e.toml", *self.cluster, "--devices", "2"],
                     ["plan", "project", "e.toml", *self.cluster, "--devices", "1,2", "--epochs", "16:3,64:6"],
                     ["plan", "show", "data", "e.toml"], ["plan", "show", "mnist-convnet", "e.toml"],
                     ["simulate", "e.toml", "--strategies", "single"], ["profile", "e.toml", "--budget", "1 s", "--out", "p.json"]):
            _, err = self.trireme(*verb, *cifar, data=False)
            self.assertEqual([line for line in err.splitlines() if "is not here" in line],
                             [f"trireme: {says}; loading is predicted to take no time"], verb)
        result = self.json("s.json")
        self.assertIn(says.removeprefix("data: "), result["data_source"])
        row = result["rows"][0]
        self.assertAlmostEqual(row["epoch_seconds"] / row["step_seconds"]["median"], 50000 / 32, delta=1)
        # verbs that train need the data
        for verb in ("train", "compare", "verify"):
            self.refused(verb, "e.toml", *cifar, says=["CIFAR-10: not found", "trireme data get cifar10"], data=False)

    def test_other_known_sets(self):
        for data, says in (("name=\"tiny-imagenet\"", "100,000 training samples of [3, 64, 64], 200 classes"),
                           ("name=\"tiny-imagenet\",shape={classes=100,train=10000}", "10,000 training samples of [3, 64, 64], 100 classes"),
                           ("name=\"folder\",path=\"gone\",image_size=32,shape={classes=5,train=700}",
                            "gone is not here; assumed, as far as stated from data.shape: 700 training samples of [3, 32, 32], 5 classes"),
                           ("name=\"adult\",train_limit=100", "100 training samples of [108], 2 classes")):
            _, err = self.trireme("simulate", "e.toml", *self.cluster, "--strategies", "data", "--set", f"data={{{data}}}", data=False)
            self.assertIn(says, err)

    def test_texts(self):
        for data, model, says in (("name=\"ptb\",sequence=20", "lstm-lm", "46,479 training samples of [20], 10,000 different tokens"),
                                  ("name=\"sst2\",pad_to_multiple_of=4", "bag-of-words", "6,920 training samples of [64], 14,835 different tokens, 2 classes"),
                                  ("name=\"multi30k\",vocabulary=4000,sequence=32", "gnmt", "29,000 training samples of [64], 4,000 different tokens")):
            _, err = self.trireme("simulate", "e.toml", *self.cluster, "--strategies", "data", "--set", f"data={{{data}}}",
                                  "--set", f"model={{name=\"{model}\"}}", "--set", "target=0.9", data=False)
            self.assertIn(says, err)
        self.refused("simulate", "e.toml", "--set", "data={name=\"sst2\",lower=true}", "--set", "model={name=\"bag-of-words\"}",
                     says=["SST-2: not found", "vocabulary must be stated", "data.shape = { vocabulary = ... }", "trireme data get sst2"], data=False)

    def test_files_of_ones_own(self):
        simulate = ["simulate", "e.toml", *self.cluster, "--strategies", "single,data", "--json"]
        self.refused(*simulate, "s.json", *self.houses(), data=False,
                     says=["houses.csv: not found", "sample, train must be stated", "data.shape = { sample = [...], train = ... }"])
        self.refused(*simulate, "s.json", "--set", "data={name=\"csv\",train=\"houses.csv\"}", data=False,
                     says=["task, sample, classes, train must be stated", "data.task = ", "data.shape = "])
        _, err = self.trireme(*simulate, "absent.json", *self.houses(SHAPE), data=False)
        self.assertIn("houses.csv is not here; assumed, as far as stated from data.shape: 80 training samples of [3], 1 value to predict", err)
        self.trireme("plan", "show", "data", "e.toml", "--json", "plan.json", *self.houses(SHAPE), data=False)
        self.write_houses()
        _, err = self.trireme(*simulate, "here.json", *self.houses(SHAPE), data=False)
        self.assertNotIn("is not here", err)
        absent, here = (self.json(name)["rows"] for name in ("absent.json", "here.json"))
        for a, b in zip(absent, here, strict=True):
            for key in ("step_seconds", "epoch_seconds", "memory_bytes", "plan"):
                self.assertEqual(json.dumps(a[key]), json.dumps(b[key]), key)
        # a plan made without the data also runs with the data
        self.trireme("train", "e.toml", "--plan", "plan.json", "--out", "o", *self.houses(SHAPE), data=False)

    def test_what_is_stated_must_hold(self):
        self.write_houses()
        for shape, says in ((",shape={sample=[4]}", ["data.shape.sample: [4]", "has [3]"]), (",shape={train=70}", ["data.shape.train: 70", "has 80"]),
                            (",shape={classes=2}", ["data.shape.classes: 2", "has 1"])):
            for verb in ("simulate", "train"):
                self.refused(verb, "e.toml", *self.houses(shape), says=says, data=False)
        self.refused("simulate", "e.toml", *self.houses(",shape={sample=[0]}"), says=["sample", "at least 1"], data=False)
