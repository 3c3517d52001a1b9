"""Checkpoints from the command line: written, listed, verified, damaged, resumed."""
import json
import os
import re
import signal

from endings import ENDLESS
from support import CliTest, stop, wait_until

EVERY_2 = ["--set", "checkpoint.every=2 steps"]


# The first evaluation is the best: no later one has a loss that is less by 100.
EARLY = [word for assignment in ("evaluate_every=1 steps", "early_stopping.measure=loss", "early_stopping.min_delta=100")
         for word in ("--set", assignment)]


def flip_last_byte(path):
    with open(path, "r+b") as f:
        f.seek(-1, os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_END)
        f.write(bytes([byte ^ 1]))


def page_data(page):
    """The numbers in the charts of a report."""
    return json.loads(re.search(r'id="data">(.*?)</script', page, re.DOTALL).group(1))


class Checkpoints(CliTest):
    def text(self, *names):
        with open(self.path(*names), encoding="utf-8") as f:
            return f.read()

    def curve(self, *names):
        return [(point["step"], point["loss"]) for point in self.json(*names, "run.json")["rows"][0]["curve"]]

    def weights(self, *names):
        with open(self.path(*names, "weights.safetensors"), "rb") as f:
            return f.read()

    def test_a_run_that_ended_early_is_complete(self):
        patience = ["--set", "early_stopping.patience=1"]
        out, _ = self.trireme("train", "e.toml", *EVERY_2, *EARLY, *patience, "--out", "a")
        self.assertIn("ended early, after step 2 of 6: no better test loss in 1 evaluation", " ".join(out.split()))
        self.assertEqual([step for step, _ in self.curve("a")], [1, 2])
        row = self.json("a", "run.json")["rows"][0]
        self.assertEqual(row["status"], "ok")
        self.assertIn("no better test loss", row["ended_early"])
        self.refused("train", "e.toml", *EARLY, *patience, "--resume", "a",
                     says=["training is complete", "ended early, after 2 steps", "no better test loss"])
        self.trireme("train", "e.toml", *EARLY, "--set", "early_stopping.patience=2", "--resume", "a", "--out", "b")
        self.assertEqual([step for step, _ in self.curve("b")], [3])
        out, _ = self.trireme("train", "e.toml", *EARLY, *patience, "--plan", "local-sgd", "--out", "c")
        self.assertIn("ended early, after step 2 of 6: no better test loss in 1 evaluation", " ".join(out.split()))
        self.assertEqual([step for step, _ in self.curve("c")], [1, 2])
        self.refused("serve", "e.toml", "--spawn", "2", *EARLY, *patience, "--plan", "easgd",
                     says=["early_stopping.patience", "easgd", "clients train to the end of their length"])

    def test_the_server_ends_rounds_early(self):
        self.trireme("serve", "e.toml", "--spawn", "2", *EARLY, "--set", "early_stopping.patience=2", "--set", "length=2000 epochs",
                     "--plan", "fedavg,local=1 steps", "--out", "s")
        row = self.json("s", "run.json")["rows"][0]
        self.assertEqual(row["status"], "ok", row["reason"])
        self.assertIn("no better test loss in 2 evaluations", row["ended_early"])
        self.assertLess(len(row["replicas"]["rounds"]), 2000)

    def test_the_best_weights_are_restored(self):
        best = ["--set", "evaluate_every=1 steps", "--set", "early_stopping.measure=loss", "--set", "early_stopping.restore_best=true",
                "--set", "optimizer.learning_rate=0.5"]
        for plan in ("data", "local-sgd"):
            self.trireme("train", "e.toml", *best, "--plan", plan, "--out", plan)
            row = self.json(plan, "run.json")["rows"][0]
            self.assertEqual(row["ended_early"], "")
            least = min(row["evaluations"], key=lambda point: point["loss"])
            self.assertEqual(row["weights_of_step"], least["step"])
            self.assertEqual(row["test"], least)
        self.trireme("train", "e.toml", "--out", "whole")
        self.assertIsNone(self.json("whole", "run.json")["rows"][0]["weights_of_step"])

    def test_written_listed_and_gone_on_from(self):
        out, _ = self.trireme("train", "e.toml", *EVERY_2, "--set", "checkpoint.keep=0", "--out", "a")
        self.assertIn("checkpoints: 3 written", out)
        self.assertNotIn("to resume", out)
        self.assertEqual(sorted(os.listdir(self.path("a", "checkpoints"))), ["step-00000002", "step-00000004", "step-00000006"])
        self.assertEqual(self.rows("a", "run.json")["data", 2]["checkpoints"]["newest_step"], 6)
        out, _ = self.trireme("checkpoints", "list", "a", data=False)
        lines = out.splitlines()
        self.assertEqual(len(lines), 4, out)
        self.assertEqual([line.split()[0] for line in lines[1:]], ["2", "4", "6"], out)
        for words in ("accuracy", "test loss", "data 2", "complete"):
            self.assertIn(words, out)
        out, _ = self.trireme("checkpoints", "verify", "a", data=False)
        self.assertEqual(out.count(": complete"), 3, out)
        checkpoint = os.path.join("a", "checkpoints", "step-00000004")
        out, _ = self.trireme("train", "e.toml", "--resume", checkpoint, "--out", "b")
        self.assertIn("resumes after step 4", out)
        self.assertEqual(self.curve("b"), self.curve("a")[4:])
        self.assertEqual(self.weights("b"), self.weights("a"))
        self.trireme("train", "e.toml", "--resume", checkpoint, "--plan", "tensor", "--devices", "4", "--out", "c")
        for (step, loss), (other_step, other) in zip(self.curve("c"), self.curve("a")[4:], strict=True):
            self.assertEqual(step, other_step)
            self.assertAlmostEqual(loss, other, places=4)

    def test_the_report_of_a_killed_run_says_how_to_go_on(self):
        self.trireme("train", "e.toml", *EVERY_2, "--out", "a")
        run = self.json("a", "run.json")
        run.update(status="running", rows=[])  # what a run has written when it is killed
        with open(self.path("a", "run.json"), "w", encoding="utf-8") as file:
            json.dump(run, file)
        os.remove(self.path("a", "trace.json"))
        out, _ = self.trireme("report", "a", data=False)
        self.assertIn('its run.json says "running"', out)
        self.assertIn("is of step 6; to go on, train with --resume a", out)

    def test_the_report_of_a_resumed_run_has_one_curve(self):
        self.trireme("train", "e.toml", *EVERY_2, "--set", "checkpoint.keep=0", "--out", "a")
        self.trireme("train", "e.toml", *EVERY_2, "--resume", os.path.join("a", "checkpoints", "step-00000002"), "--set",
                     "checkpoint.keep=0", "--out", "b")
        self.trireme("train", "e.toml", "--resume", os.path.join("b", "checkpoints", "step-00000004"), "--out", "c")
        whole = self.curve("a")
        self.assertEqual(self.curve("c"), whole[4:])
        for again in (False, True):
            if again:
                self.trireme("report", "c", data=False)
            page = self.text("c", "report.html")
            row = page_data(page)["rows"][0]
            self.assertEqual([p[0] for p in row["curve"]], [step for step, _ in whole])
            for point, (_, loss) in zip(row["curve"], whole, strict=True):
                self.assertAlmostEqual(point[2], loss, places=4)
            seconds = [p[1] for p in row["curve"]]
            self.assertEqual(seconds, sorted(seconds))
            self.assertIn("resumed after step 2", page)
            self.assertIn("resumed after step 4", page)

    def test_best_and_another_folder(self):
        out, _ = self.trireme("train", "e.toml", "--set", "checkpoint.every=3 steps", "--set", "checkpoint.keep=1",
                              "--set", "checkpoint.best=loss", "--set", "checkpoint.folder=elsewhere", "--out", "a")
        self.assertEqual(os.listdir(self.path("elsewhere")), ["a"])
        self.assertTrue(os.path.islink(self.path("a", "checkpoints")))
        out, _ = self.trireme("checkpoints", "list", "a", data=False)
        self.assertEqual(out.count("best loss"), 1, out)

    def test_damage(self):
        self.trireme("train", "e.toml", *EVERY_2, "--out", "a")
        newest = self.path("a", "checkpoints", "step-00000006")
        flip_last_byte(os.path.join(newest, "model-00001-of-00001.safetensors"))
        out, _ = self.trireme("checkpoints", "verify", "a", data=False, code=1)
        self.assertEqual((out.count(": complete"), out.count("damaged")), (2, 1), out)
        self.assertIn(os.path.join("step-00000006", "model-00001-of-00001.safetensors"), out)
        self.assertEqual(out.splitlines()[-1], "the newest complete one: resume it with --resume a/checkpoints/step-00000004")
        self.assertNotIn("checkpoints verify", out)
        out, _ = self.trireme("checkpoints", "verify", os.path.join("a", "checkpoints", "step-00000006"), data=False, code=1)
        self.assertIn("trireme checkpoints verify a/checkpoints\n", out)
        self.refused("train", "e.toml", "--steps", "8", "--resume", newest, "--out", "b", says=["model-00001-of-00001", "CRC-32"])
        out, _ = self.trireme("train", "e.toml", "--steps", "8", "--resume", "a", "--out", "c")
        for words in ("resumes after step 4", "damaged", "CRC-32", "length in steps 8, was 6"):
            self.assertIn(words, out)
        os.remove(os.path.join(newest, "checkpoint.json"))
        out, _ = self.trireme("checkpoints", "list", "a", data=False)
        self.assertIn("damaged", out)
        for step, content in (("2", "{"), ("4", "{}")):
            with open(self.path("a", "checkpoints", f"step-0000000{step}", "checkpoint.json"), "w", encoding="utf-8") as f:
                f.write(content)
        out, _ = self.trireme("checkpoints", "verify", "a", data=False, code=1)
        self.assertIn("checkpoint.json: ends too early, after byte 1", out)
        self.assertEqual(out.splitlines()[-1], "none is complete: the run cannot be resumed; start a new one without --resume")
        self.assertNotIn("checkpoints verify", out)
        said = self.refused("train", "e.toml", "--steps", "8", "--resume", "a", "--out", "d",
                            says=["none of 3 checkpoints is undamaged", "start a new run"])
        self.assertNotIn("checkpoints verify", said)

    def test_changed_data_are_refused(self):
        rows = [(k, 7 * k % 13, k % 5 + 0.5) for k in range(60)]

        def write(values):
            self.write("t.csv", "x,z,y\n" + "".join(f"{x},{z},{y}\n" for x, z, y in values))
        self.write("table.toml", 'batch = 8\nlength = "2 epochs"\ndevices = [1]\n[model]\nname = "mlp"\noptions.hidden = 8\n'
                   '[data]\nname = "csv"\ntrain = "t.csv"\n[optimizer]\nlearning_rate = 0.01\n')
        write(rows)
        self.trireme("train", "table.toml", *EVERY_2, "--out", "a", data=False)
        resume = ["train", "table.toml", "--resume", os.path.join("a", "checkpoints", "step-00000008")]
        out, _ = self.trireme(*resume, "--out", "b", data=False)
        self.assertIn("resumes after step 8", out)
        says = ["step-00000008: the training data have changed", "the checkpoint's fingerprint is", "[data]"]
        self.refused(*resume, "--set", "data.target_unit=10", says=says, data=False)
        write([(x, z, 9 if k % 3 == 0 else y) for k, (x, z, y) in enumerate(rows)])
        self.refused(*resume, says=says, data=False)

    def test_interrupted(self):
        process = self.start("train", "e.toml", *ENDLESS, "--set", "checkpoint.every=100000 steps", "--set", "optimizer.schedule=constant",
                             "--out", "a")
        self.addCleanup(stop, process)
        metrics = self.path("a", "metrics.jsonl")
        wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 1, err)
        row = self.rows("a", "run.json")["data", 2]
        self.assertEqual(row["status"], "interrupted")
        last = row["curve"][-1]["step"]
        self.assertEqual(row["checkpoints"]["newest_step"], last)
        self.assertEqual(os.listdir(self.path("a", "checkpoints")), [f"step-{last:08}"])
        command = [line for line in out.splitlines() if line.startswith("to resume: ")]
        self.assertEqual(len(command), 1, out)
        words = command[0].split()
        self.assertEqual((words[2:5], words[-2:]), (["trireme", "train", "e.toml"], ["--resume", "a"]), out)
        out, _ = self.trireme("train", "e.toml", "--set", "optimizer.schedule=constant", "--steps", str(last + 2), "--resume", "a",
                              "--out", "b")
        self.assertEqual([step for step, _ in self.curve("b")], [last + 1, last + 2])

    def test_replicas_that_agree_go_on_bit_for_bit(self):
        for k, (policy, extra) in enumerate((("local-sgd,every=3 steps", []), ("local-sgd,every=3 steps,overlap=2", []),
                                             ("diloco,every_steps=3", []),
                                             ("streaming-diloco,every_steps=4,fragments=2", []), ("gossip,every=2 steps,graph=ring", []),
                                             ("gossip,every=2 steps,compression=sign,gamma=0.3", []),
                                             ("local-sgd,every=3 steps,inner=pipeline=2", ["--devices", "4"]),
                                             ("diloco,every_steps=3,inner=data=2,sharding=zero2", ["--devices", "4"]),
                                             ("local-sgd,every=3 steps",
                                              ["--set", "update.shares=samples", "--set", "update.virtual.sample_seconds=1 ms",
                                               "--set", "update.virtual.jitter=0.5"]))):
            train = ["train", "e.toml", *extra]
            self.trireme(*train, "--plan", policy, *EVERY_2, "--out", f"w{k}")
            self.assertEqual(sorted(os.listdir(self.path(f"w{k}", "checkpoints"))), ["step-00000002", "step-00000004", "step-00000006"])
            plan = os.path.join(f"w{k}", "plan.json") if "inner" in policy else policy  # a plan file, so that the stages are the same
            self.trireme(*train, "--plan", plan, "--resume", os.path.join(f"w{k}", "checkpoints", "step-00000002"), "--out", f"r{k}")
            whole, rest = (self.json(f"{kind}{k}", "run.json")["rows"][0] for kind in "wr")
            self.assertEqual([point["step"] for point in rest["curve"]], [3, 4, 5, 6], policy)
            self.assertEqual(whole["evaluations"][-1]["loss"], rest["evaluations"][-1]["loss"], policy)
            with open(self.path(f"w{k}", "weights.safetensors"), "rb") as a, open(self.path(f"r{k}", "weights.safetensors"), "rb") as b:
                self.assertEqual(a.read(), b.read(), policy)
        self.refused("train", "e.toml", "--plan", "data", "--resume", os.path.join("w0", "checkpoints", "step-00000002"), "--out", "x",
                     says=[os.path.join("w0", "checkpoints", "step-00000002") + ": the state of replicas that agree"])
        self.refused("train", "e.toml", "--plan", "diloco,every_steps=3", "--resume", os.path.join("w0", "checkpoints", "step-00000002"),
                     "--out", "x", says=["step-00000002: update policy: the checkpoint has local-sgd, this run diloco"])
        self.refused("train", "e.toml", "--plan", "local-sgd,every=2 steps", "--resume", os.path.join("w0", "checkpoints", "step-00000002"),
                     "--out", "x", says=["step-00000002: update policy local-sgd: the checkpoint has every=3 steps, this run every=2 steps;"])
        self.refused("train", "e.toml", "--plan", "local-sgd,every=3 steps", "--devices", "4",
                     "--resume", os.path.join("w0", "checkpoints", "step-00000002"),
                     "--out", "x", says=["step-00000002: a state of 2 replicas", "the plan has 4"])

    def test_policies_without_waiting_resume(self):
        for k, policy in enumerate(("async-average", "easgd,period=2", "eamsgd,period=2", "hogwild", "downpour,shards=2", "shat,period=2")):
            train = ["train", "e.toml", "--plan", policy, "--set", "optimizer.momentum=0"]
            self.trireme(*train, *EVERY_2, "--set", "checkpoint.keep=0", "--out", f"w{k}")
            written = sorted(int(name[5:]) for name in os.listdir(self.path(f"w{k}", "checkpoints")))
            self.assertGreaterEqual(len(written), 2, policy)
            self.assertEqual(written[-1], 6, "the end too")
            self.trireme(*train, "--resume", os.path.join(f"w{k}", "checkpoints", f"step-{written[0]:08}"), "--out", f"r{k}")
            row = self.json(f"r{k}", "run.json")["rows"][0]
            self.assertEqual((row["status"], [point["step"] for point in row["curve"]]), ("ok", list(range(written[0] + 1, 7))), policy)

    def test_checkpoints_delay_no_replica(self):
        """A fast replica with a slow one makes as many steps with checkpoints as without."""
        clock = ["--set", "update.virtual.step_seconds=10 ms", "--set", "device_speeds=[1,0.1]", "--set", "optimizer.momentum=0",
                 "--steps", "30", "--set", "optimizer.schedule=constant"]
        for k, policy in enumerate(("easgd,period=2", "async-average")):
            self.trireme("train", "e.toml", "--plan", policy, *clock, "--out", f"u{k}")
            self.trireme("train", "e.toml", "--plan", policy, *clock, "--set", "checkpoint.every=3 steps", "--out", f"w{k}")
            without, with_them = (self.json(f"{kind}{k}", "run.json")["rows"][0] for kind in "uw")
            self.assertEqual(without["replicas"]["staleness"], with_them["replicas"]["staleness"], policy)
            self.assertEqual(without["replicas"]["idle_share"], with_them["replicas"]["idle_share"], policy)
            self.assertEqual(self.weights(f"u{k}"), self.weights(f"w{k}"), policy)

    def test_policies_with_rounds_resume(self):
        """Replicas stop at any step. The resumed run has the same result, bit for bit if a round has all replicas."""
        clock = ["--set", "update.virtual.sample_seconds=1 ms", "--set", "update.virtual.jitter=0.3"]
        for k, (policy, extra) in enumerate((("fedavg,rounds=4,local=2 steps", []), ("fedprox,rounds=4,local=2 steps", clock),
                                             ("fedadam,rounds=4,local=2 steps", []),
                                             ("fedavg,rounds=4,local=2 steps,inner=pipeline=2", ["--devices", "4"]),
                                             ("partial,every=2 steps", []),
                                             ("fedavg,rounds=5,fraction=0.5,local=1 epochs",
                                              ["--set", "update.shares=dirichlet", "--devices", "4", *clock]))):
            train = ["train", "e.toml", "--set", "length=8 steps", *extra]
            out, _ = self.trireme(*train, "--plan", policy, *EVERY_2, "--set", "checkpoint.keep=0", "--out", f"w{k}")
            written = sorted(os.listdir(self.path(f"w{k}", "checkpoints")))
            self.assertGreaterEqual(len(written), 2, policy)
            plan = os.path.join(f"w{k}", "plan.json") if "inner" in policy else policy
            self.trireme(*train, "--plan", plan, "--resume", os.path.join(f"w{k}", "checkpoints", written[0]), "--out", f"r{k}")
            whole, rest = (self.json(f"{kind}{k}", "run.json")["rows"][0] for kind in "wr")
            self.assertEqual(rest["status"], "ok", policy)
            self.assertEqual(rest["curve"][0]["step"], int(written[0][5:]) + 1, policy)
            self.assertEqual(whole["evaluations"][-1]["samples"], rest["evaluations"][-1]["samples"], policy)
            self.assertEqual(self.weights(f"w{k}"), self.weights(f"r{k}"), policy)

    def test_replicas_with_unequal_shares_resume(self):
        shares = ["--set", "update.shares=dirichlet", "--set", "optimizer.momentum=0", "--set", "length=3 epochs"]
        for k, policy in enumerate(("async-average", "easgd,period=2", "partial,every=2 steps")):
            self.trireme("train", "e.toml", "--plan", policy, *shares, *EVERY_2, "--set", "checkpoint.keep=0", "--out", f"w{k}")
            written = sorted(os.listdir(self.path(f"w{k}", "checkpoints")))
            self.assertGreaterEqual(len(written), 2, policy)
            self.trireme("train", "e.toml", "--plan", policy, *shares, "--resume", os.path.join(f"w{k}", "checkpoints", written[1]),
                         "--out", f"r{k}")
            whole, rest = (self.json(f"{kind}{k}", "run.json")["rows"][0] for kind in "wr")
            self.assertEqual((rest["status"], whole["evaluations"][-1]["samples"]), ("ok", rest["evaluations"][-1]["samples"]), policy)

    def test_a_replica_that_has_finished_delays_no_round(self):
        """All replicas stop while the last weights of the finished replica are in an open round. In a longer run it takes part again."""
        shares = ["--set", "update.shares=dirichlet", "--set", "update.alpha=0.2", "--set", "optimizer.momentum=0",
                  "--set", "update.virtual.sample_seconds=1 ms",
                  "--set", "update.virtual.jitter=0.6", "--set", "optimizer.schedule=constant"]
        for seed in ("4", "6"):
            train = ["train", "e.toml", "--plan", "partial,every=2 steps", "--seed", seed, *shares]
            self.trireme(*train, "--set", "length=3 epochs", "--set", "checkpoint.every=1 steps", "--set", "checkpoint.keep=0",
                         "--out", f"w{seed}")
            self.trireme(*train, "--set", "length=3 epochs", "--out", f"u{seed}")
            self.assertEqual(self.weights(f"w{seed}"), self.weights(f"u{seed}"), "checkpoints change nothing")
            last = sorted(os.listdir(self.path(f"w{seed}", "checkpoints")))[-2:]
            self.trireme(*train, "--set", "length=3 epochs", "--resume", os.path.join(f"w{seed}", "checkpoints", last[0]),
                         "--out", f"r{seed}")
            self.assertEqual(self.weights(f"w{seed}"), self.weights(f"r{seed}"))
            self.trireme(*train, "--set", "length=6 epochs", "--resume", os.path.join(f"w{seed}", "checkpoints", last[-1]),
                         "--out", f"l{seed}")
            stale = self.json(f"l{seed}", "run.json")["rows"][0]["replicas"]["staleness"]
            self.assertLessEqual(sum(stale[1:]), 1, "all are in every round, from the first one after the return on")

    def test_a_time_limit_in_a_warm_start(self):
        self.trireme("train", "e.toml", "--plan", "downpour,warm_start_steps=100000", "--set", "update.shares=dirichlet",
                     "--set", "length=30000 epochs", "--set", "optimizer.momentum=0", "--set", "optimizer.schedule=constant",
                     "--set", "time_limit=1 s", "--set", "evaluate_every=30000 epochs", "--out", "a", seconds=60)
        self.assertEqual(self.json("a", "run.json")["rows"][0]["status"], "timed out")

    def test_replicas_that_agree_are_interrupted(self):
        for k, policy in enumerate(("local-sgd,every=3 steps", "easgd,period=2", "fedavg,local=2 steps",
                                    "local-sgd,every=3 steps,inner=pipeline=2")):
            devices = "4" if "inner" in policy else "2"
            arguments = ["train", "e.toml", "--plan", policy, "--devices", devices, "--set", "optimizer.schedule=constant",
                         "--set", "optimizer.momentum=0"]
            process = self.start(*arguments, *ENDLESS, "--set", "checkpoint.every=100000 steps", "--out", f"a{k}")
            self.addCleanup(stop, process)
            metrics = self.path(f"a{k}", "metrics.jsonl")
            wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 0)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 1, err)
            row = self.json(f"a{k}", "run.json")["rows"][0]
            self.assertEqual(row["status"], "interrupted", policy)
            self.assertTrue(os.path.exists(self.path(f"a{k}", "weights.safetensors")), policy)
            last = row["checkpoints"]["newest_step"]
            self.assertEqual(os.listdir(self.path(f"a{k}", "checkpoints")), [f"step-{last:08}"])
            self.assertIn("to resume: ", out)
            plan = os.path.join(f"a{k}", "plan.json") if "inner" in policy else policy
            self.trireme(*arguments[:3], plan, *arguments[4:], "--steps", str(last + 4), "--resume", f"a{k}", "--out", f"b{k}")
            rest = self.json(f"b{k}", "run.json")["rows"][0]
            self.assertEqual((rest["status"], rest["curve"][0]["step"]), ("ok", last + 1), policy)

    def test_refused(self):
        self.trireme("train", "e.toml", *EVERY_2, "--out", "a")
        fresh = ["train", "e.toml", "--out", "b"]
        self.all_refused([
            ([*fresh, "--resume", "nowhere"], ["nowhere", "no such folder"]),
            ([*fresh, "--resume", "a"], ["6 steps are done", "--steps 7"]),
            ([*fresh, "--resume", "a", "--steps", "9", "--seed", "5"], ["seed = 1", "has 5"]),
            ([*fresh, "--resume", "a", "--steps", "9", "--set", "model.options.hidden=16"], ["of model mlp", "other layers"]),
            ([*fresh, "--resume", "a", "--steps", "9", "--plan", "fedavg,local=1 steps"], ["a plan without an agreement"]),
            ([*fresh, *EVERY_2, "--plan", "downpour,warm_start_steps=3", "--set", "optimizer.momentum=0"],
             ["checkpoint.every", "no checkpoint is possible before step 4"]),
            ([*fresh, "--resume", "a", "--steps", "9", "--plan", "local-sgd"], ["a plan without an agreement"]),
            ([*fresh, *EVERY_2, "--set", "checkpoint.best=accuracy"], ["best = accuracy", "multiple of evaluate_every"]),
            ([*fresh, "--set", "checkpoint.keep=2"], ["checkpoint.every", "is missing"]),
        ])
        self.all_refused([(["checkpoints", "list", "e.toml"], ["no checkpoints"]),
                          (["checkpoints", "verify", "nowhere"], ["no checkpoints"])], data=False)
        self.assertFalse(os.path.exists(self.path("b")))
