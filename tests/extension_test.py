"""A project outside Trireme uses an installed Trireme: find_package(trireme), and a schedule, a layer, a model, an update policy, a data set and
a backend in one file each (tests/extension/). The project's program lists, trains, simulates, checks and draws them.
Usage: extension_test.py BUILD_FOLDER [unittest's arguments]"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
SOURCE = pathlib.Path(__file__).resolve().parent / "extension"
LONGEST = 800  # seconds per command

EXPERIMENT = """
name = "rings"
batch = 64
length = "8 epochs"
devices = [2]
strategies = ["single", "fifo", "mean-every,steps=4"]
model = "swish-mlp"
data = { name = "rings", rings = "3", train_limit = 1024, test_limit = 512 }
optimizer = { kind = "sgd", learning_rate = 0.1, momentum = 0.9 }
micro_batches = 4
"""


def run(*command, cwd=None, environment=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **(environment or {})}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Extension(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.prefix, cls.build = cls.root / "prefix", cls.root / "build"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        run("cmake", "-S", SOURCE, "-B", cls.build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_CXX_FLAGS_RELEASE=-O0")
        run("cmake", "--build", cls.build)
        (cls.root / "rings.toml").write_text(EXPERIMENT)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def own(self, *words, environment=None):
        return run(self.build / "own_trireme", *words, cwd=self.root, environment=environment)

    def row(self, folder):
        return json.loads((self.root / folder / "run.json").read_text())["rows"][0]

    def expect_learned(self, row):
        self.assertEqual(row["status"], "ok")
        metrics = {metric["name"]: metric["value"] for metric in row["test"]["metrics"]}
        self.assertGreater(metrics["accuracy"], 0.8)

    def test_installs_a_program_that_says_its_version(self):
        said = run(self.prefix / "bin/trireme", "--version")
        self.assertRegex(said, r"^trireme \d+\.\d+\.\d+( \(commit \w+(-dirty)?\))?\nlibtorch \d+\.\d+\.\d+\nbackends .*local")

    def test_installs_both_libraries(self):
        self.assertIn("fifo", run(self.build / "own_static", "train", "--help"))
        self.assertIn("folder", self.own("--version"))

    def test_the_library_example_builds_against_it(self):
        example, build = SOURCE.parent.parent / "examples/library", self.root / "example"
        for static in ("OFF", "ON"):  # the second time only the program is linked again
            run("cmake", "-S", example, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                "-DCMAKE_BUILD_TYPE=Release", f"-Dtrireme_USE_STATIC={static}")
            run("cmake", "--build", build)
            self.assertIn("data 2, ok", run(build / "library_example", cwd=self.root))

    def test_lists_the_kinds(self):
        said = self.own("train", "--help")
        for name in ("fifo", "swish-mlp", "mean-every", "folder"):
            self.assertIn(name, said)
        self.assertIn("rings", self.own("data", "list"))
        self.assertIn("folder", self.own("doctor"))

    def test_draws_and_checks_the_schedule(self):
        said = self.own("plan", "show", "fifo", "rings.toml", "--devices", "2", "--program")
        self.assertRegex(said, r"worker 1, stage 1 \|\.\.0 1 2 3 b0  b1  b2  b3 ")

    def test_verifies_schedule_and_layer(self):
        for plan in ("fifo", "tensor=2", "data=2"):
            said = self.own("verify", "rings.toml", "--plan", plan, "--precision", "fp64", "--steps", "3", "--devices", "2")
            self.assertIn("swish.beta", said)

    def test_splits_the_layer(self):
        self.own("train", "rings.toml", "--plan", "tensor=2", "--steps", "2", "--out", "tensor")
        plan = json.loads((self.root / "tensor/plan.json").read_text())
        splits = {layer["layer"]: layer.get("split") for layer in plan["layers"]}
        self.assertEqual(splits["blocks.1.swish"], "features")

    def test_compares_schedule_and_policy(self):
        said = self.own("compare", "rings.toml", "--out", "compared", "--no-predict")
        rows = json.loads((self.root / "compared/run.json").read_text())["rows"]
        self.assertEqual([row["status"] for row in rows], ["ok"] * 3, said)
        single, fifo, mean = rows
        for a, b in zip(single["curve"], fifo["curve"], strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-3)
        for row in rows:
            self.expect_learned(row)
        self.assertIn("mean-every", mean["name"] + mean["strategy"])

    def test_simulates_schedule_and_policy(self):
        said = self.own("simulate", "rings.toml", "--strategies", "fifo", "--strategies", "mean-every,steps=4", "--devices", "2",
                        "--json", "simulated.json")
        rows = json.loads((self.root / "simulated.json").read_text())["rows"]
        self.assertEqual([row["status"] for row in rows], ["ok", "ok"], said)

    def test_resumes_under_the_policy(self):
        whole = ("train", "rings.toml", "--plan", "mean-every,steps=3", "--devices", "2", "--set", "checkpoint.every=5 steps")
        self.own(*whole, "--out", "first", "--steps", "40")
        self.own(*whole, "--out", "second", "--resume", "first")
        self.expect_learned(self.row("second"))

    def test_trains_over_the_backend(self):
        messages = self.root / "messages"
        messages.mkdir()  # a new folder for each run
        self.own("launch", "-n", "2", "train", "rings.toml", "--plan", "data", "--backend", "folder", "--steps", "6", "--out", "far",
                 environment={"FOLDER_BACKEND": str(messages)})
        self.own("train", "rings.toml", "--plan", "single", "--steps", "6", "--out", "near", "--devices", "1")
        far, near = self.row("far"), self.row("near")
        self.assertEqual(far["backend"], "folder")
        for a, b in zip(far["curve"], near["curve"], strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-4)

    def test_a_bad_option_of_the_data_set_is_one_line(self):
        done = subprocess.run([self.build / "own_trireme", "train", "rings.toml", "--set", "data.rings=one"], cwd=self.root, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONGEST, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(re.fullmatch(r"trireme: data\.rings: one: must be a whole number from 2 on; .*\n", done.stderr), done.stderr)


if __name__ == "__main__":
    unittest.main()
