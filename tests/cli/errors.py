"""Wrong usage: one line that names the place, the value, the reason and the next step; exit code 2; no files are left behind."""
import gzip
import json
import os
import shutil

import support
from support import CliTest, EXPERIMENT, idx


class Flags(CliTest):
    def test_flags_and_verbs(self):
        self.all_refused((
                (["train", "e.toml", "--plann", "data"], ["--plann", "unknown flag", "did you mean --plan?", "trireme train --help"]),
                (["train", "e.toml", "--nope"], ["--nope", "unknown flag"]),
                (["train", "--set", "batch=4", "seed=2", "e.toml"], ["seed=2: unknown argument", "a --set of its own"]),
                (["plan", "best", "e.toml", "--set", "batch=4", "seed=2"], ["seed=2: unknown argument", "a --set of its own"]),
                (["tran", "e.toml"], ["tran", "unknown verb", "did you mean train?"]),
                (["data", "gt"], ["gt", "did you mean get?"]),
                (["compare"], ["experiment is missing (experiment file); for example: trireme compare examples/mnist.toml", "trireme compare --help"]),
                (["compare", "e.toml", "--devices", "0"], ["--devices", "0", "from 1 to 256"]),
                (["compare", "e.toml", "--devices", "2,x"], ["--devices", "x", "whole number"]),
                (["train", "e.toml", "--devices", "2,4"], ["--devices", "2,4", "one whole number"]),
                (["train", "e.toml", "--devices", "1000"], ["--devices", "1000", "256"]),
                (["train", "e.toml", "--plan", "."], ["--plan", "is a folder", "plan.json"]),
                (["train", "e.toml", "--device", "tpu"], ["--device tpu: ", "cpu, cuda"]),
                (["profile", "e.toml", "--device", "tpu"], ["--device tpu: ", "cpu, cuda"]),
                (["simulate", "e.toml", "--device", "tpu"], ["--device tpu: ", "cpu, cuda"]),
                (["train", "e.toml", "--steps", "0"], ["--steps", "0", "at least 1"]),
                (["train", "e.toml", "--steps", "1.5"], ["--steps", "1.5", "whole number"]),
                (["simulate", "e.toml", "--epochs", ""], ["--epochs", "no value is given"]),
                (["plan", "best", "e.toml", "--devices="], ["--devices", "no value is given"]),
                (["plan", "--devices", "4", "show", "data", "e.toml"], ["--devices: unknown flag", "trireme plan"]),
                (["plan", "e.toml", "show", "data"], ["e.toml: unknown argument", "trireme plan"]),
                (["train", "e.toml", "--seed", "-1"], ["--seed", "-1", "at least 0"]),
                (["data", "get", "imagenet"], ["imagenet", "mnist, cifar10"]),
                (["report", "nowhere"], ["nowhere", "no such folder"]),
                (["report", "."], ["no run.json"])), data=False)

    def test_words_of_other_programs(self):
        self.all_refused([(command.split(), ["unknown flag", says]) for command, says in (
                ("train e.toml --epochs 5", 'write --set length="5 epochs"; see trireme train --help'),
                ("train --epochs=5 e.toml", 'write --set length="5 epochs"'),
                ("compare e.toml --lr 0.1", "write --set optimizer.learning_rate=0.1"),
                ("train e.toml --batch-size", "write --set batch=N"),
                ("train e.toml --output o", "write --out o"),
                ("measure-epochs e.toml --batch-size 64", "write --batches 64"),
                ("train e.toml --strategy 1f1b", "write --plan 1f1b"),
                ("compare e.toml --strategy 1f1b", "write --strategies 1f1b"),
                ("train e.toml --num-gpus 4", "write --device cuda --devices 4"),
                ("compare e.toml --workers 2", "write --devices 2"),
                ("train e.toml --num-workers 2", "write --set data.workers=2"),
                ("launch --nproc 4 train e.toml", "write -n 4 before train"),
                ("plan best e.toml --gpus e.toml", "write --devices N"),
                ("serve e.toml --gpus 2", "write --spawn 2"))], data=False)
        self.all_refused([(["train", "e.toml", "--set", given], [f"--set: {given}", "write --set " + says]) for given, says in (
                ("lr=0.1", "optimizer.learning_rate=0.1"), ("epochs=3", 'length="3 epochs"'), ("steps=4", 'length="4 steps"'), ("batch_size=64", "batch=64"))], data=False)
        self.trireme("train", "e.toml", "--set", 'optimizer={kind="sgd",learning_rate=0.01}', "--steps", "1", "--out", "o")  # its own table
        self.assertNotIn("write", self.refused("doctor", "--gpus", "2", data=False))
        self.refused("simulate", "e.toml", "--epochs", "nowhere.json", data=False, says=["nowhere.json"])  # a flag that exists
        for verb in ("simulate", "plan project"):  # there it means the epochs to the target
            self.refused(*verb.split(), "e.toml", "--epochs", "2", data=False,
                         says=["--epochs: 2: ", "--epochs 32:2", 'the key length: --set length="2 epochs"'])

    def test_a_batch_larger_than_the_training_set(self):
        for words in ("train e.toml", "compare e.toml", "simulate e.toml", "plan best e.toml",
                      "plan project e.toml --epochs noise=2000,least=12"):
            self.refused(*words.split(), "--set", "batch=1000000000", says=["batch", "1000000000", "256 samples"])

    def test_a_change_of_a_worker_that_is_not_there(self):
        self.write("w.toml", EXPERIMENT.replace("[model]", "[[cluster.worker.change]]\nworker = 1\nat_step = 2\nslower = 3\n\n[model]"))
        for verb in ("train", "compare"):
            self.refused(verb, "w.toml", "--devices", "1", says=["cluster.worker.change", "worker = 1", "there is 1 worker,"])
        self.trireme("compare", "w.toml", "--out", "o")  # the row of one device has no such worker, the other row has it

    def test_places_to_write_to(self):
        self.all_refused((
            (["train", "e.toml", "--json", "nowhere/x.json"], ["--json", "nowhere/x.json", "no folder nowhere"]),
            (["compare", "e.toml", "--json", "nowhere/x.json"], ["--json", "nowhere/x.json", "no folder nowhere"]),
            (["compare", "e.toml", "--json", "."], ["--json", "is a folder"]),
            (["simulate", "e.toml", "--out", "e.toml"], ["e.toml: is a file", "a run writes a folder", "--out"]),
            (["compare", "e.toml", "--out", "e.toml"], ["e.toml: is a file", "a run writes a folder", "--out"])))
        self.assertFalse(os.path.exists(self.path("runs")), "an error of the input left a run folder")
        os.makedirs(self.path("taken"))
        self.write("taken/mine.txt", "keep")
        self.refused("train", "e.toml", "--out", "taken", says=["taken", "exists already", "never overwrites"])
        self.assertEqual(os.listdir(self.path("taken")), ["mine.txt"])

    def test_help_of_every_verb(self):
        out, _ = self.trireme("--help", data=False)
        for verb in ("compare", "train", "verify", "simulate", "profile", "plan", "export", "report", "data", "doctor"):
            self.assertIn(verb, out)
        out, _ = self.trireme("compare", "--help", data=False)
        for flag in ("--strategies", "--devices", "--steps", "--set", "--data-dir", "--out", "--json", "--seed"):
            self.assertIn(flag, out)
        for help_of in (out, self.trireme("train", "--help", data=False)[0]):
            for line in (r"  resnet18 +torchvision's", r"  adamw +Adam", r"  1f1b +one forward", r"  fedavg +rounds of clients"):
                self.assertRegex(help_of, f"\n{line}")


class ExperimentFile(CliTest):
    def test_missing(self):
        self.refused("train", "gone.toml", says=["gone.toml", "cannot be read", "check the path"])

    def test_values(self):
        line = {text.split(" =")[0]: n for n, text in enumerate(EXPERIMENT.splitlines(), 1)}
        cases = []
        for i, (old, new, says) in enumerate((
                ('batch = 32', 'bacth = 32', [f"e.toml:{line['batch']}", "bacth", "unknown key", '"batch"']),
                ('batch = 32', 'batch = 0', [f"e.toml:{line['batch']}", "batch", "0"]),
                ('batch = 32', 'batch = "32"', ["batch", "32", "whole number"]),
                ('batch = 32', 'batch = = 32', [f"e.toml:{line['batch']}", "not valid TOML", "column"]),
                ('"60 s"', '"60 GiB"', [f"e.toml:{line['time_limit']}", "time_limit", "60 GiB", "not a time"]),
                ('"6 steps"', '"6 furlongs"', [f"e.toml:{line['length']}", "length", "6 furlongs"]),
                ('"mlp"', '"mpl"', ["model.name", "mpl", "did you mean", "mlp"]),
                ('options.hidden', 'options.width', ["model.options.width", "mlp has no such option", "hidden"]),
                ('"mnist"', '"mnits"', ["data.name", "mnits", "did you mean", "mnist"]),
                ('["single", "data"]', '["single", "dta"]', ["strategies", "dta", "did you mean", "data"]),
                ('["single", "data"]', '[]', ["strategies", "nothing to compare"]),
                ('[2]', '[]', ["devices", "no number of workers"]),
                ('[2]', '[0]', ["devices", "0"]),
                ('[2]', '"two"', ["devices", "two", "list of whole numbers", "in brackets"]),
                ('"fp32"', '"fp31"', ["precision", "fp31", "fp32"]))):
            self.assertIn(old, EXPERIMENT)
            self.write(f"{i}-e.toml", EXPERIMENT.replace(old, new))
            cases.append((["compare", f"{i}-e.toml"], says))
        self.all_refused(cases)
        self.assertFalse(os.path.exists(self.path("runs")), "an error of the input left a run folder")

    def test_a_batch_of_more_than_the_training_samples(self):
        for verb in (["train"], ["compare"], ["verify", "--plan", "data"], ["launch", "-n", "2", "train"]):
            self.refused(*verb, "e.toml", "--set", f"batch={support.TRAIN + 1}", code=2,
                         says=[f"--set batch={support.TRAIN + 1}", f"the training set has {support.TRAIN} samples"])
        self.trireme("train", "e.toml", "--set", f"batch={support.TRAIN}", "--steps", "2", "--out", "o")  # an epoch is one batch

    def test_overrides_that_are_wrong(self):
        self.all_refused((["train", "e.toml", "--set", assignment], says) for assignment, says in (
                                 ("optimizer.learning_rat=1", ["--set optimizer.learning_rat=1", "optimizer.learning_rate"]),
                                 ("device_memory=2 s", ["--set device_memory=2 s", "2 s"]),
                                 ("data.pad_to_multiple_of=4", ["--set data.pad_to_multiple_of=4: 4", "mnist have no padding", "leave it out"]),
                                 ("data.pad_to_multiple_of=-1", ["data.pad_to_multiple_of", "-1"]),
                                 ("model.hidden=3", ["--set model.hidden=3", "did you mean", "model.options.hidden"]),
                                 ("nonsense", ["--set nonsense", "key=value", "--set optimizer.learning_rate=0.1"])))
        self.refused("train", "e.toml", "--set", "batch=8", "seed=2", says=["seed=2", "each key=value needs a --set of its own"])


class Data(CliTest):
    def broken(self, name, change):
        """A copy of the set in which the unpacked content of one file is changed. `change` may return bytes, which are stored unchanged."""
        folder = self.path("broken")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.data, folder)
        file = os.path.join(folder, "mnist", name)
        with gzip.open(file) as f:
            content = f.read()
        stored = change(content, file)
        if stored is not None:
            with open(file, "wb") as f:
                f.write(stored)
        return folder

    def check(self, name, change, says):
        folder = self.broken(name, change)
        self.refused("compare", "e.toml", "--data-dir", folder, data=False, says=[name] + says)

    def test_missing_folder(self):
        self.refused("train", "e.toml", "--data-dir", "nowhere", data=False, says=["--data-dir", "nowhere", "no such folder"])

    def test_corrupt_gzip(self):
        def flip(_, file):
            with open(file, "rb") as f:
                stored = bytearray(f.read())
            stored[len(stored) // 2] ^= 0xFF
            return bytes(stored)
        self.check("train-images-idx3-ubyte.gz", flip, ["get the set again"])

    def test_half_a_gzip(self):
        def half(_, file):
            with open(file, "rb") as f:
                stored = f.read()
            return stored[:len(stored) // 2]
        self.check("train-images-idx3-ubyte.gz", half, ["get the set again"])

    def test_truncated_idx(self):
        self.check("t10k-images-idx3-ubyte.gz", lambda content, _: gzip.compress(content[:-1]), ["truncated idx"])

    def test_label_out_of_range(self):
        self.check("train-labels-idx1-ubyte.gz", lambda content, _: gzip.compress(content[:-1] + b"\x0b"),
                   [f"label 11 of sample {support.TRAIN - 1}", "0 to 9"])

    def test_counts_differ(self):
        self.check("t10k-labels-idx1-ubyte.gz", lambda *_: gzip.compress(idx([3], b"\1\2\3")),
                   ["3 labels", f"{support.TEST} images"])

    def test_missing_part(self):
        def drop(_, file):
            os.remove(file)
        folder = self.broken("t10k-labels-idx1-ubyte.gz", drop)
        self.refused("train", "e.toml", "--data-dir", folder, data=False, says=["t10k-labels-idx1-ubyte"])


class Plans(CliTest):
    def test_plans_that_do_not_fit(self):
        self.all_refused((["train", "e.toml", *arguments], says) for arguments, says in (
                (["--plan", "pipeline", "--devices", "9"], ["9 pipeline stages", "layers", "fewer stages"]),
                (["--plan", "data", "--devices", "8", "--set", "batch=4"], ["data degree 8", "batch = 4"]),
                (["--plan", "tensor", "--devices", "3", "--set", "model.options.hidden=31"], ["tensor degree 3", "divides no layer"]),
                (["--plan", "data=2,tensor=2", "--devices", "2"], ["data 2 x tensor 2", "= 4", "2 devices"]),
                (["--plan", "data=2,tensro=2"], ["tensro=2", "degree"]),
                (["--plan", "fedavg,a\"b=3"], ["strategy \"fedavg,a\"b=3\": ", "is not an assignment"]),
                (["--plan", "data,recompute=everything"], ["--plan", "recompute=everything", "known: none, all, except_last"]),
                (["--plan", "data,tensor=2"], ["--plan", "data already determines", "spell out all degrees"]),
                (["--plan", "data=300"], ["--plan data=300", "300 devices", "at most 256", "plan show"]),
                (["--plan", "data", "--set", "devices=[300]"], ["--plan data", "300 devices", "at most 256", "plan show"]),
                (["--plan", "local-sgd", "--set", "devices=[300]"], ["--plan local-sgd", "300 devices", "at most 256"]),
                (["--plan", "something-else"],
                 ["something-else", "is neither a strategy nor a plan file", "such as data=2,tensor=2", "zero3",
                  "an update policy (trireme help policies)"]),
                (["--plan", "pipedream,micro_batches=2"], ["pipedream", "2 micro-batches"]),
                (["--plan", "data,compression=bf16", "--devices", "2", "--set", "adapt=true"],
                 ["adapt", "training curve differs", "leave out adapt"]),
                (["--plan", "hybrid:tensor", "--devices", "2"], ["2 devices", "at least 4"]),
                (["--plan", "hybrid"], ["hybrid:tensor", "hybrid:pipeline"]),
                (["--plan", "gone.json"], ["--plan", "gone.json", "no such file"]),
                (["--plan", "pipelin"], ["--plan", "pipelin", 'did you mean "pipeline"?'])))

    def test_a_folder_with_a_plans_name(self):
        os.mkdir(self.path("data"))
        self.trireme("train", "e.toml", "--plan", "data", "--steps", "1", "--out", "o")
        os.mkdir(self.path("plans"))
        self.refused("train", "e.toml", "--plan", "plans", says=["plans: is a folder", "plans/plan.json"])

    def test_policies_are_no_plans(self):
        says = ["local-sgd", "is an update policy, which this verb does not take", "name a plan"]
        self.refused("verify", "e.toml", "--plan", "local-sgd", says=says)

    def test_plans_in_words(self):
        self.write("own.pt", "no model")
        self.write("mine.json", self.trireme("plan", "show", "data", "e.toml", "--json", "-")[0])
        self.refused("plan", says=["a verb is missing (best, ", "for example: trireme plan best ", "trireme plan --help"], data=False)
        self.all_refused((["plan", *arguments], says) for arguments, says in (
            (["show"], ["plan is missing", "for example: trireme plan show ", "trireme plan show --help"]),
            (["show", "data"], ["data", "name an experiment", "--model"]),
            (["show", "data", "--model", "mpl"], ["--model", "mpl", 'did you mean "mlp"?']),
            (["show", "data", "--model", "mlp", "--set", "batch=3"], ["--set", "batch=3", "no experiment"]),
            (["show", "nowhere.pt", "--sample", "3,8,8"], ["nowhere.pt", "there is no such file"]),
            (["show", "own.pt"], ["own.pt", "its samples' shape", "--sample 3,224,224"]),
            (["show", "own.pt", "--sample", "3,8,8"], ["own.pt", "which is a program", "runs its code", "--trust"]),
            (["show", "data", "--model", "own.pt", "--sample", "3,8,8"], ["own.pt", "which is a program", "--trust"]),
            (["show", "own.pt", "e.toml"], ["own.pt", "which is a program", "--trust"]),
            (["show", "own.pt", "--sample", "3,8,8", "--trust"], ["own.pt", "is not a TorchScript file", "torch.jit.script"]),
            (["show", "mlp", "--program"], ["mlp", "a model has no schedule", "--model mlp"]),
            (["show", "mlp", "--json", "-"], ["mlp", "a model has no schedule", "--json"]),
            (["show", "data", "e.toml", "--json", "no/where.json"], ["--json", "no folder"]),
            (["show", "mlp", "--sample", "3,0"], ["--sample", "0", "at least 1"]),
            (["show", "mine.json"], ["mine.json", "a plan for model", "trireme plan show PLAN EXPERIMENT"]),
            (["show", "e.toml"], ["plan show: e.toml", "TOML file", "trireme plan show data e.toml"]),
            (["show", "e.toml", "e.toml"], ["plan show: e.toml", "TOML file"]),
            (["show", "mine.json,recompute=all"], ["mine.json,recompute=all", "edit the file"]),
            (["show", "mine.json", "e.toml", "--worker", "2"], ["--worker", "2", "0..1"])))

    def test_comparison_of_nothing_that_can_run(self):
        self.refused("compare", "e.toml", "--strategies", "tensor", "--devices", "3", "--set", "model.options.hidden=31",
                     "--out", "o", says=["none of them can run", "tensor degree 3"])
        self.assertFalse(os.path.exists(self.path("o")), "nothing ran, so there is no run folder")

    def test_words_of_the_parser(self):
        self.refused("plan", "bset", "e.toml", says=["bset", "unknown verb", "did you mean best?"])
        self.refused("report", "a", "b", "c", data=False, says=["3 given, at most 2 are possible"])

    def test_plan_files(self):
        def layer(plan, name):
            return next(entry for entry in plan["layers"] if entry["layer"] == name)
        written, cases = self.trireme("plan", "show", "data", "e.toml", "--json", "-")[0], []
        for i, (change, says) in enumerate((
                (lambda p: p["layers"][0].update(layer="fc9"), ['layer "fc9"', "no layer of that name"]),
                (lambda p: layer(p, "fc1").update(split="diagonal"), ["layer fc1", 'split "diagonal"', "possible here"]),
                (lambda p: p["layers"].append(dict(p["layers"][1])), ["is listed twice"]),
                (lambda p: p["layers"].pop(), ["is missing"]),
                (lambda p: p["stages"][0].update(workers=[0]), ["worker 1", "in no stage"]),
                (lambda p: p["stages"][0].update(workers=[0, 1, 1]), ["worker 1", "stage 0"]),
                (lambda p: p["stages"][0].update(workers=[0, 7]), ["worker 7", "0..1"]),
                (lambda p: layer(p, "fc1").update(data=3), ["layer fc1", "data 3 x tensor 1"]),
                (lambda p: layer(p, "fc1").update(stage=4), ["layer fc1", "stage 4"]),
                (lambda p: p.update(micro_batches=0), ["micro_batches = 0"]),
                (lambda p: p.update(micro_batches=100), ["micro_batches = 100", "32 samples"]),
                (lambda p: p.update(schedule="someday"), ["someday"]),
                (lambda p: p.update(trireme_plan=99), ["trireme_plan = 99"]),
                (lambda p: p.pop("stages"), ["not a plan", "stages"]),
                (lambda p: p.update(model="other", model_fingerprint="0"), ["a plan for model other", "trireme plan"]))):
            plan = json.loads(written)
            change(plan)
            self.write(f"{i}.json", json.dumps(plan))
            verb = ["train", "e.toml", "--plan", f"{i}.json"] if i % 2 else ["compare", "e.toml", "--strategies", f"single,{i}.json"]
            cases.append((verb, [f"{i}.json"] + says))
        self.all_refused(cases)
        self.write("mine.json", "{")
        self.refused("train", "e.toml", "--plan", "mine.json", says=["mine.json", "ends too early, after byte 1"])

    def test_plan_of_another_model(self):
        self.write("mine.json", self.trireme("plan", "show", "data", "e.toml", "--json", "-", "--set", "model.options.hidden=16")[0])
        self.refused("train", "e.toml", "--plan", "mine.json", says=["mine.json", "a plan for model mlp", "trireme plan"])
        self.refused("train", "e.toml", "--plan", "e.toml", says=["--plan: e.toml", "TOML file", "a strategy such as data"])

    def test_plan_for_other_devices(self):
        self.write("mine.json", self.trireme("plan", "show", "data", "e.toml", "--json", "-")[0])
        self.refused("train", "e.toml", "--plan", "mine.json", "--devices", "4", says=["--devices", "4", "mine.json is for 2"])
