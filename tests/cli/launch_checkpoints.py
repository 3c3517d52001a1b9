"""Checkpoints of runs whose workers are processes: written, lost with a process, resumed; with launch and with other launchers."""
import os
import re
import shutil
import signal
import subprocess

import support
from launch import LaunchTest
from support import BUSY, text_of, wait_until

EVERY_2 = ["--set", "checkpoint.every=2 steps", "--set", "checkpoint.keep=0"]
LONG = ["--set", "length=300 steps", "--set", "evaluate_every=50 steps", "--set", "checkpoint.every=20 steps"]


class LaunchCheckpoints(LaunchTest):
    def losses(self, *names):
        row = self.json(*names, "run.json")["rows"][0]
        self.assertEqual(row["status"], "ok", row["reason"])
        return {point["step"]: point["loss"] for point in row["curve"]}, {point["step"]: point["loss"] for point in row["evaluations"]}

    def goes_on(self, part, whole):
        """Expects that the steps of `part` equal those of `whole`, bit for bit."""
        (steps, evaluations), (all_steps, all_evaluations) = self.losses(part), self.losses(whole)
        self.assertGreater(len(steps), 0)
        self.assertEqual(steps, {step: loss for step, loss in all_steps.items() if step in steps})
        self.assertEqual(evaluations, {step: loss for step, loss in all_evaluations.items() if step in evaluations})
        self.assertEqual(self.weights(part), self.weights(whole))
        return min(steps)

    def steps_in(self, folder):
        path = self.path(folder, "checkpoints")
        return sorted(int(name[5:]) for name in os.listdir(path) if name[5:].isdigit()) if os.path.isdir(path) else []

    def test_written_and_gone_on_from_under_any_plan(self):
        self.trireme("launch", "-n", "2", "train", "e.toml", *EVERY_2, "--out", "a")
        self.assertEqual(self.steps_in("a"), [2, 4, 6])
        self.assertEqual(self.rows("a", "run.json")["data", 2]["checkpoints"]["written"], 3)
        self.trireme("checkpoints", "verify", "a", data=False)
        private = ["--set", "replicas=private"]
        self.trireme("train", "e.toml", *EVERY_2, *private, "--out", "t")
        for step in ("step-00000002", "step-00000006"):
            for name in os.listdir(self.path("a", "checkpoints", step)):
                if name.endswith(".safetensors"):
                    with (open(self.path("a", "checkpoints", step, name), "rb") as a,
                          open(self.path("t", "checkpoints", step, name), "rb") as b):
                        self.assertEqual(a.read(), b.read(), (step, name))
        checkpoint = os.path.join("a", "checkpoints", "step-00000004")
        out, _ = self.trireme("launch", "-n", "2", "train", "e.toml", "--resume", checkpoint, "--out", "b")
        self.assertIn("resumes after step 4", out)
        self.assertEqual(self.goes_on("b", "a"), 5)
        self.trireme("train", "e.toml", *private, "--resume", checkpoint, "--out", "c")
        self.assertEqual(self.goes_on("c", "a"), 5)
        for name, arguments in {"d": ["launch", "-n", "4", "train", "e.toml", "--plan", "data=2,tensor=2"],
                                "e": ["launch", "-n", "3", "train", "e.toml", "--plan", "zero3"],
                                "f": ["train", "e.toml", "--plan", "single"]}.items():
            self.trireme(*arguments, "--resume", checkpoint, "--out", name)
            whole = self.losses("a")[0]
            for step, loss in self.losses(name)[0].items():
                self.assertAlmostEqual(loss, whole[step], places=4)

    def test_power_sgd_goes_on_with_any_number_of_workers(self):
        exact = ["--set", "precision=fp64"]
        powersgd = ["--plan", "data,compression=powersgd:1", *exact]
        self.trireme("launch", "-n", "2", "train", "e.toml", *powersgd, *EVERY_2, "--out", "a")
        self.trireme("train", "e.toml", *powersgd, *EVERY_2, "--out", "t")
        for name in os.listdir(self.path("a", "checkpoints", "step-00000004")):
            if name.endswith(".safetensors"):
                with (open(self.path("a", "checkpoints", "step-00000004", name), "rb") as a,
                      open(self.path("t", "checkpoints", "step-00000004", name), "rb") as b):
                    self.assertEqual(a.read(), b.read(), name)
        checkpoint = os.path.join("a", "checkpoints", "step-00000004")
        whole = self.losses("a")[0]
        for name, arguments in {"b": ["launch", "-n", "2", "train", "e.toml"], "c": ["launch", "-n", "4", "train", "e.toml"],
                                "d": ["train", "e.toml", "--devices", "3"]}.items():
            self.trireme(*arguments, *powersgd, "--resume", checkpoint, "--out", name)
            self.assertEqual(len(self.json(name, "run.json")["initial_values"]), 1, "nothing is dropped")
            losses = self.losses(name)[0]
            self.assertEqual(sorted(losses), [5, 6])
            for step, loss in losses.items():
                self.assertAlmostEqual(loss, whole[step], places=8)
        for name, arguments in {"e": ["train", "e.toml", "--plan", "single"],
                                "f": ["launch", "-n", "2", "train", "e.toml", "--plan", "data"]}.items():
            self.trireme(*arguments, *exact, "--resume", checkpoint, "--out", name)
            self.assertIn("what PowerSGD had not sent yet of", self.json(name, "run.json")["initial_values"][1])
            self.assertEqual(sorted(self.losses(name)[0]), [5, 6])

    def test_replicas_that_are_processes_go_on_bit_for_bit(self):
        for k, (policy, devices) in enumerate((("local-sgd,every=3 steps", 2), ("diloco,every_steps=3", 2),
                                               ("local-sgd,every=3 steps,inner=pipeline=2", 4),
                                               ("fedavg,rounds=4,local=2 steps", 2), ("easgd,period=2", 2))):
            self.trireme("train", "e.toml", "--plan", policy, "--devices", str(devices), "--set", "optimizer.momentum=0", *EVERY_2,
                         "--out", f"t{k}")
            train = ["launch", "-n", "2", "train", "e.toml", "--set", "optimizer.momentum=0", "--plan", os.path.join(f"t{k}", "plan.json")]
            self.trireme(*train, *EVERY_2, "--out", f"w{k}")
            written = self.steps_in(f"w{k}")
            self.assertGreaterEqual(len(written), 2, policy)
            for name, arguments in {"p": train, "q": train[3:]}.items():  # with processes and with threads
                self.trireme(*arguments, "--resume", os.path.join(f"w{k}", "checkpoints", f"step-{written[0]:08}"), "--out", f"{name}{k}")
                row = self.json(f"{name}{k}", "run.json")["rows"][0]
                self.assertEqual((row["status"], row["curve"][0]["step"]), ("ok", written[0] + 1), (policy, row["reason"]))
                if "easgd" in policy:
                    continue  # its result depends on the order of visits
                self.assertEqual(self.weights(f"{name}{k}"), self.weights(f"t{k}"), (policy, name))

    def test_three_replicas_under_gossip(self):
        """In each exchange one of three replicas has no partner. It agrees with the others on whether the run ends."""
        for k, graph in enumerate(("exponential", "ring")):
            self.trireme("launch", "-n", "3", "train", "e.toml", "--plan", f"gossip,every=2 steps,graph={graph}", *EVERY_2,
                         "--out", f"g{k}")
            row = self.json(f"g{k}", "run.json")["rows"][0]
            self.assertEqual((row["status"], len(row["curve"])), ("ok", 6), (graph, row["reason"]))
            self.assertEqual(self.steps_in(f"g{k}"), [2, 4, 6])

    def test_replicas_that_are_processes_are_interrupted(self):
        """The launcher passes Ctrl-C to all ranks; if a single rank gets a signal to end, all end."""
        endless = ["--set", "length=1000000 steps", "--set", "evaluate_every=1000000 steps", "--set", "checkpoint.every=100000 steps",
                   "--set", "optimizer.schedule=constant"]
        for k, (policy, single) in enumerate((("local-sgd,every=3 steps", False), ("diloco,every_steps=4", True),
                                              ("fedavg,local=2 steps", False), ("easgd,period=2", True))):
            process = self.launch("-n", "2", "train", "e.toml", "--plan", policy, *endless, "--out", f"a{k}")
            metrics = self.path(f"a{k}", "metrics.jsonl")
            wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
            if single:
                log = self.path(f"a{k}", "logs", "rank-1.log")
                wait_until(lambda: os.path.exists(log) and "process " in text_of(log))
                os.kill(int(re.search(r"process (\d+)", text_of(log)).group(1)), signal.SIGTERM)
            else:
                process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(10 * BUSY), 1, process.said())
            row = self.json(f"a{k}", "run.json")["rows"][0]
            self.assertEqual((row["status"], row["reason"]),
                             ("interrupted", "rank 1 received a signal to end" if single else "stopped by the user"), policy)
            self.assertTrue(os.path.exists(self.path(f"a{k}", "weights.safetensors")), policy)
            last = row["checkpoints"]["newest_step"]
            self.assertEqual(self.steps_in(f"a{k}"), [last], policy)
            self.trireme("launch", "-n", "2", "train", "e.toml", "--plan", policy, "--set", "optimizer.schedule=constant",
                         "--steps", str(last + 6), "--resume", f"a{k}", "--out", f"b{k}")
            row = self.json(f"b{k}", "run.json")["rows"][0]
            self.assertEqual((row["status"], row["curve"][0]["step"]), ("ok", last + 1), policy)

    def test_replicas_that_are_processes_with_unequal_shares(self):
        train = ["launch", "-n", "2", "train", "e.toml", "--plan", "async-average", "--set", "update.shares=dirichlet", "--set",
                 "optimizer.momentum=0", "--set", "length=3 epochs"]
        self.trireme(*train, *EVERY_2, "--out", "w")
        written = self.steps_in("w")
        self.assertGreaterEqual(len(written), 2)
        self.trireme(*train, "--resume", os.path.join("w", "checkpoints", f"step-{written[0]:08}"), "--out", "r")
        whole, rest = (self.json(name, "run.json")["rows"][0] for name in "wr")
        self.assertEqual((rest["status"], rest["curve"][0]["step"]), ("ok", written[0] + 1), rest["reason"])
        self.assertEqual(whole["evaluations"][-1]["samples"], rest["evaluations"][-1]["samples"])

    def test_killed_and_gone_on(self):
        """Ranks are killed after a checkpoint; the run resumed from it equals the undisturbed run."""
        self.trireme("launch", "-n", "3", "train", "e.toml", *LONG, "--out", "whole")
        for victim in (0, 2):
            out = f"killed-{victim}"
            process = self.launch("-n", "3", "train", "e.toml", *LONG, "--set", "checkpoint.keep=2", "--out", out)
            self.wait_for(process, lambda: len(self.steps_in(out)) >= 2)
            os.kill(self.training(process, out)[victim], signal.SIGKILL)
            self.assertEqual(process.wait(15 * BUSY), 1, process.said())
            newest = self.steps_in(out)[-1]
            self.assertGreaterEqual(newest, 40)
            self.trireme("checkpoints", "verify", out, data=False)
            self.trireme("launch", "-n", "3", "train", "e.toml", *LONG, "--resume", out, "--out", f"resumed-{victim}")
            self.assertEqual(self.goes_on(f"resumed-{victim}", "whole"), newest + 1)

    def test_ctrl_c_leaves_a_checkpoint(self):
        process = self.launch("-n", "2", "train", "e.toml", "--set", "length=100000 steps", "--set", "evaluate_every=100000 steps",
                              "--set", "checkpoint.every=100000 steps", "--set", "optimizer.schedule=constant", "--out", "o")
        ranks = self.training(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        row = self.json("o", "run.json")["rows"][0]
        self.assertEqual(row["status"], "interrupted")
        last = row["curve"][-1]["step"]
        self.assertEqual(self.steps_in("o"), [last])
        self.trireme("launch", "-n", "2", "train", "e.toml", "--set", "optimizer.schedule=constant", "--steps", str(last + 2),
                     "--resume", "o", "--out", "b")
        self.assertEqual(sorted(self.losses("b")[0]), [last + 1, last + 2])

    def test_refuses(self):
        self.trireme("train", "e.toml", *EVERY_2, "--out", "a")
        launch = ["launch", "-n", "2", "train", "e.toml", "--out", "b"]
        self.all_refused([
            ([*launch, "--resume", "nowhere"], ["nowhere", "no such folder"]),
            ([*launch, "--resume", "a"], ["6 steps are done"]),
            ([*launch, "--resume", "a", "--steps", "9", "--seed", "5"], ["seed = 1", "has 5"]),
        ])
        self.assertFalse(os.path.exists(self.path("b")))

    def test_mpirun(self):
        mpirun = shutil.which("mpirun")
        if not mpirun:
            self.skipTest("no mpirun on this machine")
        environment = {**self.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = [mpirun, "--oversubscribe", "-n", "3", support.PROGRAM, "train", "e.toml", "--data-dir", self.data]
        for more in ([*EVERY_2, "--out", "a"], ["--resume", os.path.join("a", "checkpoints", "step-00000002"), "--out", "b"]):
            done = subprocess.run([*command, *more], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.steps_in("a"), [2, 4, 6])
        self.assertEqual(self.goes_on("b", "a"), 3)
