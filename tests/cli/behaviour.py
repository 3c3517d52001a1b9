"""What the verbs do without errors."""
import json
import os
import random
import re
import shlex

import support
from support import CliTest

ROW_NAMES = {"strategy", "plan", "status", "reason", "devices", "step_seconds", "epoch_seconds", "samples_per_second",
             "scaling_efficiency", "busy_share", "communication", "memory_bytes", "test", "to_target", "curve"}

SENTENCES = """
name = "sentences"
batch = 12
length = "2 epochs"
precision = "fp64"
devices = [2]

[model]
name = "bert"
options = { layers = 1, width = 8, heads = 2, positions = 16, probability = 0 }

[data]
name = "labelled-text"
train = "train.tsv"
test = "test.tsv"
sequence = 16

[optimizer]
learning_rate = 0.05
"""


class Profile(CliTest):
    def test_measures_extends_and_refuses(self):
        out, _ = self.trireme("profile", "e.toml", "--out", "p.json", "--devices", "2", "--set", "batch=8")
        for word in ("linear", "softmax_cross_entropy", "all_reduce", "update by sgd", "written to p.json", "0 known before"):
            self.assertIn(word, out)
        profile = self.json("p.json")
        sizes = {size["samples"] for layer in profile["layers"] for size in layer["sizes"]}
        self.assertEqual(sizes, {1, 2, 4, 8})
        for layer in profile["layers"]:
            for size in layer["sizes"]:
                self.assertGreater(size["forward"][0], 0, layer["key"])
                self.assertGreaterEqual(size["crowding"], 1)
        out, _ = self.trireme("profile", "e.toml", "--out", "p.json", "--devices", "2", "--set", "batch=8")
        self.assertIn("0 calls measured", out)
        self.assertEqual(self.json("p.json"), profile)
        self.trireme("profile", "e.toml", "--out", "p.json", "--devices", "2", "--set", "batch=8",
                     "--set", "model.options.hidden=24")
        self.assertGreater(len(self.json("p.json")["layers"]), len(profile["layers"]))

        profile["machine"]["cores"] = 1000
        self.write("other.json", json.dumps(profile))
        self.refused("profile", "e.toml", "--out", "other.json", says=["other.json", "another machine", "cores 1000, here"])
        self.write("none.json", "{}")
        self.refused("profile", "e.toml", "--out", "none.json", says=["none.json", "not a profile"])
        self.refused("profile", "e.toml", "--out", "nowhere/p.json", says=["--out", "nowhere"])
        self.refused("profile", "e.toml", "--budget", "soon", says=["--budget", "soon"])

    def test_says_what_the_budget_left_out(self):
        early = "links and updates are measured first"
        out, err = self.trireme("profile", "e.toml", "--out", "p.json", "--budget", "1 ms")
        self.assertIn(early, " ".join((out + err).split()))
        self.assertIn('not measured, because --budget "1 ms" was too short', out)
        self.assertRegex(out, r'it took .* with --budget "1 ms": \d.* for links and updates, which are always measured, .* for layers, '
                              r'and \d.* for trial steps, which do not count\n')
        out, _ = self.trireme("profile", "e.toml", "--out", "q.json", "--budget", "0.001")  # seconds
        self.assertIn('not measured, because --budget "0.001" was too short', out)
        self.assertIn("32 samples at tensor degree 1", out)
        out, err = self.trireme("profile", "e.toml", "--out", "q.json", "--budget", "1 ms")
        self.assertNotIn(early, " ".join((out + err).split()), "the file has them")


class Compare(CliTest):
    def test_all_strategies_one_curve(self):
        out, _ = self.trireme("compare", "e.toml", "--strategies", "single,data,tensor,pipeline,hybrid", "--devices", "2,4",
                              "--set", "precision=fp64", "--out", "o", "--json", "copy.json")
        result = self.json("o", "run.json")
        self.assertEqual((result["schema"], result["experiment"], result["status"]), (2, "small", "finished"))
        self.assertEqual(self.json("copy.json"), result)
        rows = result["rows"]
        self.assertEqual([(r["strategy"], r["devices"], r["status"]) for r in rows],
                         [("single", 1, "ok"), ("data", 2, "ok"), ("data", 4, "ok"), ("tensor", 2, "ok"), ("tensor", 4, "ok"),
                          ("pipeline", 2, "ok"), ("pipeline", 4, "ok"), ("hybrid", 2, "skipped"), ("hybrid", 4, "ok"),
                          ("hybrid", 4, "ok")])
        reference = [p["loss"] for p in rows[0]["curve"]]
        self.assertEqual(len(reference), 6)
        for row in rows:
            self.assertLessEqual(ROW_NAMES, set(row))
            if row["status"] == "skipped":
                self.assertRegex(row["reason"], r"^cannot use 2 devices: .*at least 4 devices")
                continue
            for point, loss in zip(row["curve"], reference, strict=True):
                self.assertAlmostEqual(point["loss"] / loss, 1, delta=1e-10, msg=row["plan"])
            self.check_row(row)
        for word in ("strategy", "skipped", "share 2 cores" if os.cpu_count() == 2 else "run folder", "run folder: o"):
            self.assertIn(word, out)
        for name in ("report.html", "trace.json", "data-x2/plan.json", "data-x2/metrics.jsonl", "data-x2/run.json", "single/plan.json"):
            self.assertTrue(os.path.exists(self.path("o", name)), name)

    def check_row(self, row):
        for name in ("median", "p10", "p90"):
            self.assertGreater(row["step_seconds"][name], 0)
        for name in ("epoch_seconds", "samples_per_second", "scaling_efficiency"):
            self.assertGreater(row[name], 0)
        self.assertEqual(len(row["busy_share"]), row["devices"])
        self.assertLessEqual({"exposed_share", "hidden_share", "bytes_per_step"}, set(row["communication"]))
        self.assertEqual(row["communication"]["bytes_per_step"] > 0, row["devices"] > 1)
        self.assertEqual(len(row["memory_bytes"]), row["devices"])
        for memory in row["memory_bytes"]:
            self.assertEqual(sum(memory[c] for c in ("weights", "gradients", "optimizer", "activations", "buffers")), memory["peak"])
        self.assertIn("loss", row["test"])
        self.assertEqual([metric["name"] for metric in row["test"]["metrics"]], ["accuracy", "top5_accuracy"])
        if row["to_target"] is not None:
            self.assertLessEqual({"steps", "epochs", "seconds"}, set(row["to_target"]))
        self.assertEqual([(p["step"], p["samples"]) for p in row["curve"]], [(s, 32 * s) for s in range(1, 7)])

    def test_degrees_files_and_repeats(self):
        self.write("mine.json", self.trireme("plan", "show", "data=2,tensor=2", "e.toml", "--json", "-")[0])
        self.trireme("compare", "e.toml", "--strategies", "data=2,tensor=2,single,mine.json,data,data", "--steps", "2", "--out", "o")
        rows = [(r["devices"], r["plan"], r["status"]) for r in self.json("o", "run.json")["rows"]]
        self.assertEqual(rows, [(4, "data 2 x tensor 2", "ok"), (1, "one device", "ok"), (4, "data 2 x tensor 2", "ok"),
                                (2, "data 2", "ok"), (2, "data 2", "ok")])
        self.assertEqual(self.json("o", "run.json")["rows"][2]["strategy"], "mine")

    def test_rows_that_run_several_times_take_turns(self):
        out, _ = self.trireme("compare", "e.toml", "--strategies", "single,data", "--steps", "8", "--repeat", "3", "--out", "o",
                              "--json", "c.json")
        self.assertEqual(re.findall(r"^(\w.*): starts$", out, re.M),
                         [f"{label}, run {run} of 3" for run in (1, 2, 3) for label in ("single", "data x2")])
        self.assertIn("between repeats", out)
        for row in self.json("o", "run.json")["rows"]:
            self.assertEqual((row["status"], len(row["repeats"])), ("ok", 3))
            median = row["step_seconds"]["median"]
            self.assertLessEqual(min(repeat["step_seconds"]["p10"] for repeat in row["repeats"]), median)
            self.assertGreaterEqual(max(repeat["step_seconds"]["p90"] for repeat in row["repeats"]), median)
        self.assertEqual(self.json("c.json")["rows"][0]["repeats"], self.json("o", "run.json")["rows"][0]["repeats"])
        self.assertTrue(os.path.exists(self.path("o", "data-x2-run-3", "run.json")))
        self.assertIn("between repeats", self.trireme("report", "o", data=False)[0])
        self.refused("compare", "e.toml", "--repeat", "0", says=["--repeat"])

    def test_keys_after_names(self):
        strategies = "zero1,micro_batches=2,hybrid,compression=bf16,data=2,speeds=3:1,interleaved"
        self.trireme("compare", "e.toml", "--strategies", strategies, "--set", "model.options.depth=3", "--steps", "2", "--out", "o")
        rows = self.json("o", "run.json")["rows"]
        self.assertEqual([(r["strategy"], r["name"], r["status"]) for r in rows],
                         [("zero1", "zero1,micro_batches=2", "ok"), ("hybrid", "hybrid:tensor,compression=bf16", "skipped"),
                          ("data=2,speeds=3:1", "data=2,speeds=3:1", "ok"), ("interleaved", "interleaved", "ok")])
        self.assertEqual(rows[0]["plan"], "data 2, 2 micro-batches, 1f1b, zero1")
        self.assertEqual(rows[2]["plan"], "data 2, speeds 3:1")

    def test_report_again(self):
        shown, _ = self.trireme("compare", "e.toml", "--steps", "3", "--out", "o")
        with open(self.path("o", "report.html"), encoding="utf-8") as f:
            first = f.read()
        os.remove(self.path("o", "report.html"))
        out, _ = self.trireme("report", "o", data=False)
        self.assertIn(out.split("report:")[0], shown)
        self.assertIn("--details", out)
        self.assertNotIn("samples/s", out)
        self.assertIn("samples/s", self.trireme("report", "o", "--details", data=False)[0])
        with open(self.path("o", "report.html"), encoding="utf-8") as f:
            again = f.read()
        self.assertLess(abs(len(first) - len(again)), 0.01 * len(first))
        os.remove(self.path("o", "trace.json"))
        self.assertIn("without timelines", self.trireme("report", "o", data=False)[0])
        self.two_runs_side_by_side()

    def two_runs_side_by_side(self):
        """The folder o holds a run without a trace."""
        self.trireme("compare", "e.toml", "--steps", "3", "--seed", "7", "--out", "p")
        out, _ = self.trireme("report", "o", "p", data=False)
        for words in ("B against A", "rows in common", "seed: ", "o: the report is without timelines", "report: report-of-two.html"):
            self.assertIn(words, out)
        with open(self.path("report-of-two.html"), encoding="utf-8") as f:
            page = f.read()
        for words in ('id="changes"', "B: ", "Settings that differ"):
            self.assertIn(words, page)
        self.assertIn("report: report-of-two-2.html", self.trireme("report", "o", "p", data=False)[0])
        with open(self.path("report-of-two.html"), encoding="utf-8") as f:
            self.assertEqual(f.read(), page)
        out, _ = self.trireme("report", "o", "p", "--details", "--out", "two.html", data=False)
        self.assertIn("samples/s", out)
        self.assertTrue(os.path.exists(self.path("two.html")))
        self.trireme("report", "o", "--out", "one.html", data=False)
        self.assertTrue(os.path.exists(self.path("one.html")))


class Train(CliTest):
    def curve(self, *arguments):
        name = f"run{len(os.listdir(self.folder))}"
        self.trireme("train", "e.toml", *arguments, "--out", name)
        rows = self.json(name, "run.json")["rows"]
        self.assertEqual(len(rows), 1)
        return [p["loss"] for p in rows[0]["curve"]]

    def test_seed_steps_and_set(self):
        first = self.curve("--seed", "7", "--steps", "4")
        self.assertEqual(len(first), 4)
        self.assertEqual(self.curve("--seed", "7", "--steps", "4"), first)
        self.assertNotEqual(self.curve("--seed", "8", "--steps", "4"), first)
        self.assertEqual(self.curve("--set", "seed=7", "--set", "length=4 steps"), first)
        self.assertNotEqual(self.curve("--seed", "7", "--steps", "4", "--set", "optimizer.learning_rate=0.2")[1:], first[1:])

    def test_sentences_with_little_padding(self):
        draw = random.Random(3)
        for split, count in (("train", 70), ("test", 30)):
            words = [[draw.choice("abcdefgh") for _ in range(draw.randint(1, draw.randint(1, 10)))] for _ in range(count)]
            self.write(f"{split}.tsv", "".join(f"{'yes' if 'a' in w else 'no'}\t{' '.join(w)}\n" for w in words))
        self.write("e.toml", SENTENCES)
        self.trireme("compare", "e.toml", "--strategies", "single", "--set", "data.pad_to_multiple_of=16", "--out", "whole")
        self.trireme("compare", "e.toml", "--strategies", "single,tensor,pipeline", "--set", "data.pad_to_multiple_of=4", "--out", "cut")
        whole = self.json("whole", "run.json")["rows"][0]
        rows = self.json("cut", "run.json")["rows"]
        for row in rows:
            self.assertEqual(row["status"], "ok", row["reason"])
            for point, expected in zip(row["curve"], whole["curve"], strict=True):
                self.assertEqual(point["samples"], expected["samples"])
                self.assertAlmostEqual(point["loss"] / expected["loss"], 1, delta=1e-10, msg=row["plan"])
            self.assertAlmostEqual(row["test"]["loss"] / whole["test"]["loss"], 1, delta=1e-10)
            self.assertEqual(row["test"]["metrics"], whole["test"]["metrics"])
        cut_bytes, whole_bytes = (row["memory_bytes"][0]["activations"] for row in (rows[0], whole))
        self.assertLess(cut_bytes, whole_bytes, "no sentence takes more than 12 of 16 tokens")
        odd = ["--plan", "tensor=2,split=sequence", "--set", "data.pad_to_multiple_of=3"]
        for command in (["train", "e.toml", *odd, "--out", "refused"], ["plan", "show", odd[1], "e.toml", "--json", "-", *odd[2:]],
                        ["verify", "e.toml", *odd], ["plan", "show", odd[1], "e.toml", *odd[2:]]):
            self.refused(*command, says=["--set data.pad_to_multiple_of=3: 3:", "over 2 workers", "use a multiple of 2"])
        self.assertFalse(os.path.exists(self.path("refused")), "an error of the input left a run folder")

    def test_edited_plan(self):
        plan = json.loads(self.trireme("plan", "show", "pipeline", "e.toml", "--json", "-", "--set", "micro_batches=2")[0])
        self.assertEqual((plan["devices"], plan["micro_batches"]), (2, 2))
        plan["micro_batches"] = 5
        plan["layers"][-1]["stage"] = 1
        self.write("five.json", json.dumps(plan))
        self.trireme("train", "e.toml", "--plan", "five.json", "--out", "o")
        row = self.json("o", "run.json")["rows"][0]
        self.assertEqual((row["strategy"], row["status"]), ("five", "ok"))
        self.assertIn("5 micro-batches", row["plan"])
        self.assertEqual(self.json("o", "plan.json")["micro_batches"], 5)
        # its plan.json is a plan file too
        out, _ = self.trireme("verify", "e.toml", "--plan", "o/plan.json", "--set", "precision=fp64")
        self.assertIn("equal (tolerance", out)

    def test_plan_in_words(self):
        out, _ = self.trireme("plan", "show", "1f1b,recompute=all,micro_batches=3", "e.toml", "--program", "--worker", "1")
        self.assertIn("pipeline 2, 3 micro-batches, 1f1b, recompute on 2 devices, model mlp", out)
        for line in (r"\nstage +workers +layers +degrees +recomputed with\n0 +0 +\S+", r"\n1 +1 +(\S+\.\.)?loss",
                     r"\nworker 0, stage 0 +\|0",
                     r"\nworker 1, one step:\n  load batch, micro-batch 0\n", r"\n  recompute \S+, micro-batch 2\n",
                     r"\n  backward \S+, micro-batch 2\n"):
            self.assertRegex(out, line)
        # a plan file of a model with default options needs no experiment
        written, _ = self.trireme("plan", "show", "data=2,tensor=2", "e.toml", "--json", "-", "--set", "model.options.hidden=256")
        self.write("mine.json", written)
        shown, _ = self.trireme("plan", "show", "mine.json", data=False)
        self.assertIn("data 2 x tensor 2 on 4 devices, model mlp", shown)
        self.assertNotIn("one step", shown)
        out, _ = self.trireme("plan", "show", "branches", "--model", "inception", "--devices", "3", data=False)
        self.assertIn("branches: 3 stages on 3 devices", out)
        # with a model in place of a plan it prints the layers
        out, _ = self.trireme("plan", "show", "mlp", "--sample", "6", "--devices", "3", data=False)
        for words in ("mlp: ", "for a sample of [6]", "on a tensor axis of 3", "fc1", "linear", "split by", "replicate only, because"):
            self.assertIn(words, out)
        for what in (["resnet18"], ["data", "--model", "resnet18"]):
            out, _ = self.trireme("plan", "show", *what, data=False)
            self.assertIn("note: samples of [3, 32, 32] are assumed", out)
        # a plan may be for more devices than this machine can run
        for model in ("unet", "bert", "gnmt", "inception-v3"):  # pixels, sentences, pairs of them, images of another size
            self.assertIn(f"model {model}", self.trireme("plan", "show", "single", "--model", model, data=False)[0])
        out, _ = self.trireme("plan", "show", "data=512,tensor=2,pipeline=4,schedule=1f1b", "--model", "mlp", data=False)
        self.assertIn("on 4096 devices", out)

    def test_verify_names_every_parameter(self):
        out, _ = self.trireme("verify", "e.toml", "--plan", "tensor", "--devices", "2", "--steps", "2")
        for name in ("fc1.weight", "fc3.bias", "loss", "equal"):
            self.assertIn(name, out)

    def test_verify_takes_its_precision_from_either_flag_and_not_from_both(self):
        arguments = ["verify", "e.toml", "--plan", "data", "--devices", "2", "--steps", "1"]
        for flags, precision in (([], "fp64"), (["--set", "precision=fp32"], "fp32"), (["--precision", "fp32"], "fp32")):
            out, _ = self.trireme(*arguments, *flags)
            self.assertTrue(out.splitlines()[0].endswith(", " + precision), out)
        self.refused(*arguments, "--set", "precision=fp32", "--precision", "fp64", says=["--precision", "--set gives a precision too"])

    def test_one_weird_trick(self):
        arguments = [os.path.join(support.EXAMPLES, "mnist.toml"), "--plan", os.path.join(support.EXAMPLES, "one-weird-trick.json")]
        out, _ = self.trireme("verify", *arguments, "--set", "precision=fp64")
        self.assertIn("data 4, then tensor 4 from fc1", out)
        self.assertIn("equal (tolerance", out)
        self.trireme("train", *arguments, "--steps", "2", "--out", "o")
        self.assertEqual(self.json("o", "run.json")["rows"][0]["strategy"], "one-weird-trick")

    def test_generated_digits_say_so(self):
        self.write("e.toml", support.EXPERIMENT.replace('name = "mnist"', 'name = "mnist"\ntrain_limit = 256\ntest_limit = 64'))
        out, _ = self.trireme("train", "e.toml", "--steps", "2", "--out", "t", data=False)
        self.assertIn("generated digits: no MNIST was found", out)
        out, _ = self.trireme("compare", "e.toml", "--strategies", "single", "--steps", "2", "--out", "c", data=False)
        self.assertIn("generated digits: no MNIST was found", out)
        for folder in ("t", "c"):
            result = self.json(folder, "run.json")
            self.assertTrue(result["generated_data"])
            self.assertIn("generated digits", result["data_source"])
            with open(self.path(folder, "report.html"), encoding="utf-8") as f:
                self.assertIn("generated digits", f.read())


class EndOfARun(CliTest):
    def test_says_what_matters(self):
        out, _ = self.trireme("train", "e.toml", "--steps", "4", "--plan", "data", "--out", "o")
        row = self.json("o", "run.json")["rows"][0]
        text = " ".join(out.split())
        milliseconds = 1e3 * row["step_seconds"]["median"]
        said = re.search(r"data on 2 devices: ([\d.]+) (ms|s|µs) per step, test accuracy ([\d.]+) % and test loss ([\d.]+) at the end", text)
        self.assertIsNotNone(said, out)
        self.assertAlmostEqual(float(said[1]) * {"µs": 1e-3, "ms": 1, "s": 1e3}[said[2]] / milliseconds, 1, 1)
        self.assertAlmostEqual(float(said[3]), 100 * row["test"]["metrics"][0]["value"], 1)
        self.assertAlmostEqual(float(said[4]), row["test"]["loss"], 1)
        self.assertIn(" run folder: o ", text)
        command = re.search("to compare with other plans: trireme (.*)", out)[1]
        self.trireme(*shlex.split(command), "--out", "p", data=False)
        self.assertEqual(self.rows("p", "run.json")["data", 2]["status"], "ok")

    def test_a_run_that_failed_has_no_comparison(self):
        out, _ = self.trireme("train", "e.toml", "--set", "time_limit=1 ms", "--out", "o", "--set", "length=1000 epochs")
        self.assertNotIn("to compare", out)


class Machine(CliTest):
    def test_doctor(self):
        out, _ = self.trireme("doctor", data=False)
        for word in ("libtorch", "BLAS", "oneDNN", "AVX2", "cores", "memory", "GPUs", "MPI", "Backends", "gloo", "virtual"):
            self.assertIn(word, out)

    def test_data_list(self):
        out, _ = self.trireme("data", "list")
        self.assertIn(f"found in {self.data}", out)
        self.assertIn("trireme data get cifar10", out)
