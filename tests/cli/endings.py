"""How runs end early: memory, time, signals. Measurements stay readable, and no process is left behind."""
import json
import os
import signal
import subprocess
import time

import support
from support import BUSY, CliTest, alive, children_of, stop, wait_until

ENDLESS = ["--set", "length=1000000 steps", "--set", "evaluate_every=1000000 steps", "--set", "time_limit=0 s"]


class Endings(CliTest):
    def launch(self, *arguments):
        process = self.start(*arguments)
        self.addCleanup(stop, process)
        return process

    def training(self, *folders):
        """True if metrics.jsonl of this run folder has a step."""
        file = self.path(*folders, "metrics.jsonl")
        return os.path.exists(file) and os.path.getsize(file) > 0

    def row_of(self, comparison):
        """The process that trains the current row: a fork of the comparison's first child."""
        return wait_until(lambda: children_of(children_of(comparison.pid)[0]))[0]

    def check_metrics(self, *folders):
        with open(self.path(*folders, "metrics.jsonl"), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([line["step"] for line in lines], list(range(1, len(lines) + 1)))

    def test_does_not_fit(self):
        self.trireme("compare", "e.toml", "--set", "device_memory=200 KiB", "--strategies", "single,pipeline", "--out", "o")
        row = self.rows("o", "run.json")["single", 1]
        self.assertEqual(row["status"], "does not fit")
        for words in ("device 0", "200 KiB", "weights"):
            self.assertIn(words, row["reason"])
        self.trireme("train", "e.toml", "--set", "device_memory=200 KiB", "--plan", "single", "--out", "t", code=1)

    def test_timed_out(self):
        out, _ = self.trireme("compare", "e.toml", *ENDLESS, "--set", "time_limit=1 s", "--strategies", "data", "--out", "o")
        row = self.rows("o", "run.json")["data", 2]
        self.assertEqual((row["status"], "time_limit" in row["reason"]), ("timed out", True), row["reason"])
        self.assertGreater(len(row["curve"]), 1)
        self.assertIsNotNone(row["samples_per_second"])
        self.assertIn("timed out", out)

    def test_killed_child_is_a_row(self):
        process = self.launch("compare", "e.toml", *ENDLESS, "--set", "time_limit=30 s", "--strategies", "data,tensor", "--out", "o")
        wait_until(lambda: self.training("o", "data-x2"))
        os.kill(self.row_of(process), signal.SIGKILL)
        wait_until(lambda: self.training("o", "tensor-x2"))
        os.kill(self.row_of(process), signal.SIGINT)  # the second one gets SIGINT
        self.assertEqual(process.wait(20 * BUSY), 1)
        rows = self.rows("o", "run.json")
        self.assertEqual(rows["data", 2]["status"], "failed")
        self.assertIn("signal 9", rows["data", 2]["reason"])
        self.assertEqual(rows["tensor", 2]["status"], "interrupted")
        self.assertTrue(rows["tensor", 2]["curve"])

    def test_the_process_that_forks_is_killed(self):
        process = self.launch("compare", "e.toml", *ENDLESS, "--set", "time_limit=2 s", "--strategies", "data,tensor", "--out", "o")
        wait_until(lambda: self.training("o", "data-x2"))
        row = self.row_of(process)
        os.kill(children_of(process.pid)[0], signal.SIGKILL)
        wait_until(lambda: not alive(row), 2)
        self.assertEqual(process.wait(40 * BUSY), 1)
        rows = self.rows("o", "run.json")
        self.assertEqual([rows[name, 2]["status"] for name in ("data", "tensor")], ["failed", "timed out"])
        self.assertIn("signal 9", rows["data", 2]["reason"])

    def test_interrupted_train(self):
        for plan in ("single", "pipeline"):
            process = self.launch("train", "e.toml", *ENDLESS, "--plan", plan, "--devices", "2", "--out", plan)
            wait_until(lambda: self.training(plan))
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(10 * BUSY), 1)
            self.assertLess(time.monotonic() - began, 2 * BUSY)
            result = self.json(plan, "run.json")
            self.assertEqual((result["status"], result["rows"][0]["status"]), ("interrupted", "interrupted"))
            self.assertTrue(result["rows"][0]["curve"])
            self.assertTrue(os.path.exists(self.path(plan, "report.html")))
            self.check_metrics(plan)

    def test_interrupted_comparison(self):
        # the first strategy ends at its limit, the second is interrupted, the third never begins
        process = self.launch("compare", "e.toml", *ENDLESS, "--set", "time_limit=1 s", "--strategies", "single,data,tensor",
                              "--out", "o")
        wait_until(lambda: self.training("o", "data-x2"))
        child = self.row_of(process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10 * BUSY), 1)
        self.assertLess(time.monotonic() - began, 2 * BUSY)
        self.assertFalse(alive(child))
        result = self.json("o", "run.json")
        self.assertEqual(result["status"], "interrupted")
        self.assertEqual([(r["strategy"], r["status"]) for r in result["rows"]],
                         [("single", "timed out"), ("data", "interrupted"), ("tensor", "interrupted")])
        self.check_metrics("o", "single")
        self.check_metrics("o", "data-x2")
        self.assertIn("run folder: o", process.stdout.read())

    def test_signals_for_the_whole_group(self):
        # a terminal signals all processes: the row's process must end before the one that forks
        for number in (signal.SIGINT, signal.SIGTERM):
            out = f"o{int(number)}"
            process = subprocess.Popen([support.PROGRAM, *self.words(("compare", "e.toml", *ENDLESS, "--strategies", "data", "--out", out),
                                        data=True)], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.addCleanup(stop, process)
            wait_until(lambda: self.training(out, "data-x2"))
            row = self.row_of(process)
            os.killpg(process.pid, number)
            process.wait(10 * BUSY)
            wait_until(lambda: not alive(row), 2)
            self.assertEqual([r["status"] for r in self.json(out, "run.json")["rows"]] or ["lost"], ["interrupted"], number)

    def test_a_closed_connection_leaves_a_checkpoint(self):
        """The shell and the system send SIGHUP, one after the other; nohup keeps the run from it."""
        checkpoints = ["--set", "checkpoint.every=100000 steps"]
        for k, words in enumerate((("train", "e.toml"), ("launch", "-n", "2", "train", "e.toml"))):
            process = self.launch(*words, *ENDLESS, *checkpoints, "--out", f"o{k}")
            wait_until(lambda k=k: self.training(f"o{k}"))
            process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
            process.send_signal(signal.SIGHUP)
            self.assertEqual(process.wait(20 * BUSY), 1, words)
            row = self.json(f"o{k}", "run.json")["rows"][0]
            self.assertEqual((row["status"], row["reason"]), ("interrupted", "stopped by the user"), words)
            self.assertEqual(os.listdir(self.path(f"o{k}", "checkpoints")), [f"step-{row['curve'][-1]['step']:08}"], words)
            kept = subprocess.Popen(["nohup", support.PROGRAM, *self.words((*words, *ENDLESS, "--out", f"n{k}"), data=True)],
                                    cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
            self.addCleanup(stop, kept)
            wait_until(lambda k=k: self.training(f"n{k}"))
            kept.send_signal(signal.SIGHUP)
            before = os.path.getsize(self.path(f"n{k}", "metrics.jsonl"))
            wait_until(lambda k=k, before=before: os.path.getsize(self.path(f"n{k}", "metrics.jsonl")) > before)
            time.sleep(1)
            self.assertIsNone(kept.poll(), words)
            kept.send_signal(signal.SIGINT)
            self.assertEqual(kept.wait(10 * BUSY), 1, words)

    def test_interrupted_while_starting(self):
        # at any point (reading data, profiling, starting a child) it ends, and its files can be read
        for verb, wait in (("train", 0.7), ("compare", 0.9)):
            process = self.launch(verb, "e.toml", *ENDLESS, "--out", verb)
            time.sleep(wait)
            process.send_signal(signal.SIGTERM)
            process.wait(4 * BUSY)
            self.assertNotEqual(process.returncode, 0)
            if os.path.exists(self.path(verb, "run.json")):
                self.json(verb, "run.json")

    def test_children_die_with_their_parent(self):
        process = self.launch("compare", "e.toml", *ENDLESS, "--strategies", "data", "--out", "o")
        wait_until(lambda: self.training("o", "data-x2"))
        server, row = children_of(process.pid)[0], self.row_of(process)
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not alive(server) and not alive(row), 2)
        self.assertEqual(self.json("o", "run.json")["status"], "running")
        self.check_metrics("o", "data-x2")
