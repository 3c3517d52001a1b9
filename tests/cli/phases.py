"""Training in phases, and runs that begin with the state of another."""
import json
import os
import re
import shutil
import signal

from support import BUSY, CliTest, children_of, stop, text_of, wait_until

PHASES = """
[[phase]]
length = "2 epochs"
batch = 16

[[phase]]
length = "1 epochs"
frozen = ["fc1.*"]
plan = "tensor"

[[phase]]
length = "5 steps"
optimizer.learning_rate = 0.01
"""


class Phases(CliTest):
    def setUp(self):
        super().setUp()
        self.experiment("p.toml", PHASES)

    def experiment(self, name, more):
        with open(self.path("e.toml"), encoding="utf-8") as file:
            text = file.read()
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text + more)

    def begun(self, phase, *arguments):
        """Starts a run in folder a. Returns its process when this phase has made a step."""
        process = self.start(*arguments, "--out", "a")
        self.addCleanup(stop, process)
        metrics = self.path("a", f"phase-{phase}", "metrics.jsonl")
        wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
        return process

    def of_phases(self, folder, key):
        return [phase[key] for phase in self.json(folder, "phases.json")["phases"]]

    def row(self, *names):
        rows = self.json(*names, "run.json")["rows"]
        self.assertEqual(len(rows), 1)
        return rows[0]

    def frozen_weights(self, *names):
        """The bytes of the first layer's weights."""
        with open(self.path(*names, "weights.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            begin, end = header["fc1.weight"]["data_offsets"]
            file.seek(begin, os.SEEK_CUR)
            return file.read(end - begin)

    def test_each_is_a_run_that_begins_with_the_state_before(self):
        out, _ = self.trireme("train", "p.toml", "--out", "a")
        for words in ("phase 1 of 3: batch=16", "phase 2 of 3", 'frozen=["fc1.*"]', "phase 3 of 3: length", "begins with the state after step 32 of a/phase-1",
                      "begins with the state after step 8 of a/phase-2", "the optimizer's state begins anew: there is none of fc1.", "all phases:"):
            self.assertIn(words, out)
        rows = [self.row("a", f"phase-{k}") for k in (1, 2, 3)]
        self.assertEqual([row["curve"][-1]["step"] for row in rows], [32, 8, 5])
        self.assertEqual([row["name"] for row in rows], ["data", "tensor", "data"])
        self.assertEqual(self.frozen_weights("a", "phase-1"), self.frozen_weights("a", "phase-2"))
        self.assertNotEqual(self.frozen_weights("a", "phase-2"), self.frozen_weights("a", "phase-3"))
        self.assertLess(rows[1]["curve"][0]["loss"], rows[0]["curve"][0]["loss"])
        phases = self.json("a", "phases.json")["phases"]
        self.assertEqual([phase["steps"] for phase in phases], [32, 8, 5])
        self.assertEqual(phases[1]["changes"], ['frozen=["fc1.*"]', 'length="1 epochs"'])
        self.trireme("train", "e.toml", "--start-from", os.path.join("a", "phase-3"), "--steps", "2", "--out", "b")
        for words, phase in ((["e.toml", "--start-from"], 3), (["p.toml", "--start-from"], 3), (["p.toml", "--phase", "3", "--start-from"], 2),
                             (["p.toml", "--phase", "2", "--resume"], 2)):
            self.refused("train", *words, "a", says=["run in phases", f"name the folder of phase {phase}: a/phase-{phase}"])
        self.refused("report", "a", os.path.join("a", "phase-1"), data=False,
                     says=["has a run for each phase", "a/phase-1"])
        page = text_of(self.path("a", "report.html"))
        for words in ("small: all phases", "phase-2/report.html", 'frozen=[&quot;fc1.*&quot;]',
                      "accuracy against time"):
            self.assertTrue(words in page, words)
        os.remove(self.path("a", "report.html"))
        out, _ = self.trireme("report", "a", data=False)
        self.assertRegex(out, r"2 +tensor 2 +8 ")
        self.assertIn("all phases: ", out)
        self.assertEqual(text_of(self.path("a", "report.html")), page)
        out, _ = self.trireme("train", "p.toml", "--resume", "a")
        self.assertEqual(out.count("was trained: a/phase-"), 3)
        self.experiment("other.toml", PHASES.replace("2 epochs", "3 epochs"))
        self.refused("train", "other.toml", "--resume", "a",
                     says=["phases.json", "phase 1 was trained with", "3 epochs"])
        self.refused("train", "p.toml", "--resume", "a", "--out", "c", says=["--out", "its own folder"])

    def test_a_resumed_run_begins_with_what_it_was_started_from(self):
        self.trireme("train", "e.toml", "--steps", "3", "--set", "checkpoint.every=3 steps", "--out", "s")
        self.experiment("long.toml", PHASES.replace('length = "2 epochs"', 'length = "100000 epochs"'))
        process = self.begun(1, "launch", "-n", "2", "train", "long.toml", "--start-from", "s")
        os.kill(max(children_of(process.pid)), signal.SIGKILL)
        out, err = process.communicate(timeout=30 * BUSY)
        self.assertEqual(process.returncode, 1, err)
        self.refused("report", "a", data=False, says=["has no finished phase", "trireme report a/phase-1"])
        self.experiment("long.toml", PHASES)
        for launch in ((), ("launch", "-n", "2")):
            out, _ = self.trireme(*launch, "train", "long.toml", "--resume", "a")
            self.assertIn("was trained: a/phase-1.2" if launch else "begins with the state after step 3 of", out)

    def test_flags_replace_changes(self):
        self.trireme("train", "p.toml", "--set", "batch=64", "--steps", "2", "--out", "a")
        self.assertEqual([phase["changes"] for phase in self.json("a", "phases.json")["phases"]],
                         [[], ['frozen=["fc1.*"]'], ["optimizer.learning_rate=0.01"]])

    def test_killed_before_its_result_was_written(self):
        self.trireme("train", "p.toml", "--out", "a")
        run = self.json("a", "phase-2", "run.json")
        run.update(status="running", rows=[])
        with open(self.path("a", "phase-2", "run.json"), "w", encoding="utf-8") as file:
            json.dump(run, file)
        os.remove(self.path("a", "phases.json"))
        shutil.rmtree(self.path("a", "phase-3"))
        out, _ = self.trireme("train", "p.toml", "--resume", "a")
        self.assertIn("was trained: a/phase-2", out)
        self.assertIn("begins with the state after step 8 of a/phase-2", out)
        self.assertEqual([phase["steps"] for phase in self.json("a", "phases.json")["phases"]], [32, 8, 5])

    def test_a_phase_without_its_last_checkpoint_goes_on(self):
        """As if the disk had been full at the end of phase 2."""
        self.trireme("train", "p.toml", "--set", "checkpoint.every=3 steps", "--set", "checkpoint.keep=0", "--out", "a")
        run = self.json("a", "phase-2", "run.json")
        checkpoints = run["rows"][0]["checkpoints"]
        self.assertEqual((checkpoints["newest_step"], checkpoints["failed"]), (8, 0))
        checkpoints.update(newest_step=6, failed=1)
        with open(self.path("a", "phase-2", "run.json"), "w", encoding="utf-8") as file:
            json.dump(run, file)
        shutil.rmtree(self.path("a", "phase-2", "checkpoints", "step-00000008"))
        os.remove(self.path("a", "phases.json"))
        shutil.rmtree(self.path("a", "phase-3"))
        out, _ = self.trireme("train", "p.toml", "--set", "checkpoint.every=3 steps", "--resume", "a")
        for words in ("was trained: a/phase-1", "resumes after step 6",
                      "begins with the state after step 8 of a/phase-2.2"):
            self.assertIn(words, out)
        self.assertEqual(self.of_phases("a", "folder"), ["phase-1", "phase-2.2", "phase-3"])

    def test_a_phase_may_end_early(self):
        self.experiment("q.toml", """
[[phase]]
length = "20 steps"
evaluate_every = "3 steps"
early_stopping.patience = 1
early_stopping.measure = "loss"
early_stopping.min_delta = 100.0

[[phase]]
length = "5 steps"
""")
        self.trireme("train", "q.toml", "--out", "a")
        self.assertEqual(self.of_phases("a", "steps"), [6, 5])
        first, second = self.of_phases("a", "ended_early")
        self.assertIn("no better test loss in 1 evaluation", first)
        self.assertEqual(second, "")
        out, _ = self.trireme("train", "q.toml", "--resume", "a")
        self.assertEqual(out.count("was trained"), 2)

    def test_only_the_last_phase_may_restore_its_best_weights(self):
        phase = '[[phase]]\nlength = "4 steps"\n'
        best = "early_stopping.restore_best = true\nevaluate_every = \"2 steps\"\n"
        self.experiment("first.toml", phase + best + phase)
        self.refused("train", "first.toml", "--out", "f", says=["restore_best", "the last [[phase]]"])
        self.refused("train", "first.toml", "--set", "early_stopping.restore_best=true", "--out", "f", says=["restore_best"])
        self.experiment("last.toml", phase + phase + best)
        self.trireme("train", "last.toml", "--out", "a")
        self.assertIn(self.json("a", "phase-2", "run.json")["rows"][0]["weights_of_step"], (2, 4))

    def test_update_policies(self):
        """Checkpoints of replicas that agree hold the first replica's weights, so nothing can begin with them."""
        self.experiment("first.toml", PHASES.replace("batch = 16", 'plan = "local-sgd"'))
        self.refused("train", "first.toml", "--out", "w",
                     says=["phase 1", "local-sgd", "the next phase", "model.weights"])
        self.assertFalse(os.path.exists(self.path("w")))
        self.trireme("train", "e.toml", "--plan", "easgd,period=2", "--set", "optimizer.momentum=0",
                     "--set", "checkpoint.every=3 steps", "--out", "s")
        said = self.refused("train", "e.toml", "--start-from", "s", "--out", "t",
                            says=["s/checkpoints/step-00000006", "update policy", "first replica", "model.weights="])
        remedy = re.search(r"model\.weights=\S+/weights\.safetensors", said)
        self.trireme("train", "e.toml", "--set", remedy.group(0), "--steps", "2", "--out", "t")

    def test_a_phase_alone(self):
        self.trireme("train", "p.toml", "--phase", "1", "--out", "one")
        out, _ = self.trireme("train", "p.toml", "--phase", "2", "--start-from", "one", "--out", "two")
        self.assertIn("begins with the state after step 32 of one", out)
        out, _ = self.trireme("launch", "-n", "2", "train", "p.toml", "--phase", "2", "--start-from", "one", "--plan", "tensor", "--out", "three")
        self.assertIn("begins with the state after step 32 of one", out)
        two, three = self.row("two")["curve"], self.row("three")["curve"]
        for a, b in zip(two, three, strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], places=4)
        out, _ = self.trireme("compare", "p.toml", "--phase", "2", "--steps", "2", "--no-predict", "--out", "four")
        self.assertEqual(self.json("four", "run.json")["rows"][0]["curve"][-1]["samples"], 64)

    def test_processes_train_what_threads_do(self):
        self.trireme("train", "p.toml", "--set", "replicas=private", "--out", "a")
        out, _ = self.trireme("launch", "-n", "2", "train", "p.toml", "--out", "b")
        for words in ("phase 2 of 3", "2 processes on 1 machine", "begins with the state after step 8 of b/phase-2",
                      "all phases:"):
            self.assertIn(words, out)
        for k in (1, 2, 3):
            losses = [[point["loss"] for point in self.row(folder, f"phase-{k}")["curve"]] for folder in "ab"]
            self.assertEqual(losses[0], losses[1], k)
        for key in ("phase", "plan", "steps", "folder", "changes"):
            self.assertEqual(self.of_phases("a", key), self.of_phases("b", key), key)

    def test_processes_interrupted_and_resumed(self):
        self.experiment("long.toml", PHASES.replace('length = "1 epochs"', 'length = "100000 epochs"'))
        self.write("token", "0123456789abcdef0123456789abcdef\n")
        process = self.begun(2, "launch", "-n", "2", "--token-file", "token", "train", "long.toml")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 1, err)
        command = [line for line in out.splitlines() if line.startswith("to resume: ")]
        self.assertEqual(len(command), 1, out)
        words = command[0].split()
        self.assertEqual(words[2:9], ["trireme", "launch", "-n", "2", "--token-file", "token", "train"])
        self.assertEqual(words[words.index("--plan") + 1], "data", "not the plan of phase 2 alone")
        self.assertEqual(words[-2:], ["--resume", "a"])
        self.assertNotIn("--phase", words)
        self.assertNotIn("phase 3 of 3", out)
        last = self.row("a", "phase-2")["curve"][-1]["step"]
        self.experiment("long.toml", PHASES.replace('length = "1 epochs"', f'length = "{last + 3} steps"'))
        out, _ = self.trireme("launch", "-n", "2", "train", "long.toml", "--resume", "a")
        self.assertIn("was trained: a/phase-1", out)
        self.assertIn(f"resumes after step {last}", out)
        phases = self.json("a", "phases.json")["phases"]
        self.assertEqual([phase["folder"] for phase in phases], ["phase-1", "phase-2.2", "phase-3"])
        self.assertEqual([phase["plan"] for phase in phases], ["data 2", "tensor 2", "data 2"])

    def test_an_elastic_run_goes_on_in_the_phase_that_lost_a_rank(self):
        longer = PHASES.replace('length = "1 epochs"', 'length = "400 epochs"')
        self.experiment("long.toml", longer.replace('plan = "tensor"\n', ""))
        process = self.begun(2, "launch", "-n", "2", "train", "long.toml", "--set", "elastic=true",
                             "--set", "checkpoint.every=20 steps")
        os.kill(max(children_of(process.pid)), signal.SIGKILL)
        out, err = process.communicate(timeout=120 * BUSY)
        self.assertEqual(process.returncode, 0, err)
        phases = self.json("a", "phases.json")["phases"]
        self.assertEqual([phase["folder"] for phase in phases], ["phase-1", "phase-2", "phase-3"])
        self.assertIn(" -> ", phases[1]["plan"])
        self.assertEqual([phase["steps"] for phase in phases], [32, 3200, 5])

    def test_a_phase_that_was_killed_without_a_checkpoint(self):
        self.experiment("long.toml", PHASES.replace('length = "1 epochs"', 'length = "100000 epochs"'))
        process = self.begun(2, "launch", "-n", "2", "train", "long.toml")
        os.kill(max(children_of(process.pid)), signal.SIGKILL)
        out, err = process.communicate(timeout=30 * BUSY)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("phase 2 can go on from its beginning\nto resume: trireme launch -n 2 train long.toml", out)
        self.assertTrue(out.rstrip().endswith("--plan data --resume a"), out)
        self.experiment("long.toml", PHASES)
        out, _ = self.trireme("launch", "-n", "2", "train", "long.toml", "--resume", "a")
        self.assertIn("was trained: a/phase-1", out)
        self.assertEqual(self.of_phases("a", "folder"), ["phase-1", "phase-2.2", "phase-3"])

    def test_interrupted_and_resumed(self):
        self.experiment("long.toml", PHASES.replace('length = "1 epochs"', 'length = "100000 epochs"'))
        process = self.begun(2, "train", "long.toml", "--set", "checkpoint.every=1000000 steps")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 1, err)
        command = [line for line in out.splitlines() if line.startswith("to resume: ")]
        self.assertEqual(len(command), 1, out)
        self.assertEqual(command[0].split()[-2:], ["--resume", "a"])
        self.assertNotIn("--phase", command[0])
        self.assertIn(" --plan data ", command[0], "not the plan of phase 2 alone")
        self.assertNotIn("phase 3 of 3", out)
        last = self.row("a", "phase-2")["curve"][-1]["step"]
        with open(self.path("long.toml"), encoding="utf-8") as file:
            text = file.read()
        with open(self.path("long.toml"), "w", encoding="utf-8") as file:
            file.write(text.replace('"100000 epochs"', f'"{last + 3} steps"'))
        out, _ = self.trireme("train", "long.toml", "--resume", "a")
        self.assertIn("was trained: a/phase-1", out)
        self.assertIn(f"resumes after step {last}", out)
        self.assertEqual([point["step"] for point in self.row("a", "phase-2.2")["curve"]], [last + 1, last + 2, last + 3])
        self.assertEqual(self.row("a", "phase-3")["curve"][-1]["step"], 5)
        self.assertEqual(self.of_phases("a", "folder"), ["phase-1", "phase-2.2", "phase-3"])

    def test_modelled_time(self):
        out, _ = self.trireme("train", "p.toml", "--backend", "virtual", "--plan", "data", "--set", "cluster.link.bandwidth=1 Gbit/s", "--out", "a")
        self.assertEqual(out.count("times are modelled"), 3)
        self.assertEqual(len(self.json("a", "phases.json")["phases"]), 3)

    def test_refused(self):
        self.refused("train", "p.toml", "--phase", "4", says=["--phase", "has 3 phases", "choose 1 to 3"])
        self.refused("train", "e.toml", "--phase", "1", says=["has no [[phase]]", "leave it out"])
        for phase in ("phase=1", "phase=[]", "phase[0].batch=8"):
            self.refused("train", "p.toml", "--set", phase, says=["--set", phase, "choose one with --phase"])
        self.refused("compare", "p.toml", says=["p.toml", "has phases", "--phase 1 to 3"])
        self.refused("simulate", "p.toml", says=["has phases", "--phase 1 to 3"])
        self.refused("launch", "-n", "2", "compare", "p.toml", says=["has phases", "--phase 1 to 3"])
        self.refused("launch", "-n", "2", "train", "p.toml", "--messages", says=["has phases", "--phase 1 to 3"])
        self.refused("launch", "-n", "2", "train", "p.toml", "--json", "x.json", says=["--json", "phases.json"])
        self.refused("launch", "-n", "2", "train", "p.toml", "--devices", "4", says=["--devices", "2 processes"])
        self.experiment("alone.toml", PHASES.replace('plan = "tensor"', 'plan = "single"'))
        self.refused("launch", "-n", "2", "train", "alone.toml", "--out", "n",
                     says=["phase 2", "single", "1 worker", "2 processes"])
        self.refused("launch", "-n", "2", "--print", "slurm", "train", "p.toml", says=["has phases", "--phase 1 to 3"])
        self.write("c.cluster.toml", "")
        self.refused("launch", "-n", "2", "train", "p.toml", "--cluster", "c.cluster.toml",
                     says=["--cluster", "--backend virtual"])
        self.refused("launch", "-n", "2", "train", "p.toml", "--set", "adapt=true", "--out", "n",
                     says=["adapt", "processes"])
        self.refused("train", "p.toml", "--start-from", "nowhere", "--out", "n", says=["nowhere"])
        self.assertFalse(os.path.exists(self.path("n")), "a mistake leaves nothing behind")
        self.refused("train", "p.toml", "--resume", ".", says=["--resume", "it has no phase-1"])
        self.refused("train", "p.toml", "--json", "x.json", says=["--json", "phases.json"])
        for words in (("train", "e.toml"), ("launch", "-n", "2", "train", "e.toml")):
            self.refused(*words, "--resume", "a", "--start-from", "b", says=["--start-from", "leave one"])
        self.refused("train", "e.toml", "--start-from", "nowhere", says=["nowhere"])
        for plan, says in (("local-sgd", ["phase 2", "update policy"]), ("1f1bb", ["phase 2", "1f1b"])):
            self.experiment("wrong.toml", PHASES.replace('plan = "tensor"', f'plan = "{plan}"'))
            self.refused("train", "wrong.toml", "--out", "w", says=says)
        self.experiment("wrong.toml", PHASES.replace("fc1.*", "nothing.*"))
        self.refused("train", "wrong.toml", "--out", "w", says=["phase 2", "nothing.*", "no such parameter"])
        self.experiment("wrong.toml", PHASES.replace('plan = "tensor"', 'precision = "fp64"'))
        self.refused("train", "wrong.toml", "--out", "w", says=["phase 2", "precision = fp64", "phase 1 has fp32"])
        self.experiment("wrong.toml", PHASES.replace("learning_rate", "learnin_rate"))
        self.refused("train", "wrong.toml", "--out", "w", says=['did you mean "optimizer.learning_rate"'])
        for change, says in (("batch = 16", ["phase[0].batc", "plan, length, batch"]), ('length = "2 epochs"', ["phase[0].length", "is missing"])):
            self.experiment("wrong.toml", PHASES.replace(change, change.replace("batch", "batc") if "batch" in change else ""))
            self.refused("train", "wrong.toml", says=says)
        self.experiment("wrong.toml", PHASES.replace("0.01", '"x"'))
        self.refused("train", "wrong.toml", "--out", "w", says=["phase 3: optimizer.learning_rate"])
        self.assertFalse(os.path.exists(self.path("w")), "nothing is trained if a later phase is wrong")
