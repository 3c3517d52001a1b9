"""A comparison whose workers are processes: trireme launch compare."""
import os
import signal
import socket

from launch import LONG, LaunchTest
from support import BUSY, alive, children_of, text_of, wait_until


TWO_HOSTS = ["--hosts", "localhost:1,127.0.0.2:1"]


class LaunchCompare(LaunchTest):
    def compare(self, *arguments, launch=("-n", "2"), out="c"):
        printed, said = self.trireme("launch", *launch, "compare", "e.toml", "--out", out, "--json", f"{out}.json", *arguments)
        return {row["name"]: row for row in self.json(f"{out}.json")["rows"]}, printed, said

    def test_rows_are_what_launch_and_train_train(self):
        rows, printed, _ = self.compare("--strategies", "single,data,data=4,exact,diloco,every_steps=3", "--steps", "6")
        self.assertIn("2 processes on 1 machine; within a machine ", printed)
        self.assertRegex(printed, r"predictions: trial steps took [0-9.]+ \(one device\), [0-9.]+ \(data on 2 devices\)")
        done = ["single", "data", "exact", "diloco,every_steps=3"]
        for name in done:
            self.assertIn(name, list(rows))
            row = rows[name]
            self.assertEqual(row["status"], "ok", row["reason"])
            self.assertGreater(row["predicted"]["step_seconds"], 0, name)
            self.assertEqual(row["devices"], 1 if name == "single" else 2)
            self.assertEqual(row["backend"], "local" if name == "single" else "gloo")
        self.assertEqual(rows["data=4"]["status"], "skipped")
        self.assertIn("needs 4 processes, and 2 are launched", rows["data=4"]["reason"])
        self.trireme("launch", "-n", "2", "train", "e.toml", "--plan", "data", "--steps", "6", "--out", "p")
        self.assertEqual(self.weights("p"), self.weights("c", "data-x2"))
        self.assertTrue(os.path.exists(self.path("c", "report.html")))

    def test_a_batch_per_device(self):
        rows, _, _ = self.compare("--strategies", "single,data", "--set", "batch=16 per device", "--no-predict", "--steps", "4")
        self.assertEqual({name: (row["batch"], row["curve"][0]["samples"]) for name, row in rows.items()},
                         {"single": (16, 16), "data": (32, 32)})
        printed, _ = self.trireme("launch", "-n", "2", "train", "e.toml", "--plan", "data", "--set", "batch=16 per device", "--steps", "4",
                                  "--out", "p")
        self.assertIn("batch: 32 samples, 16 on each of 2 devices", printed)
        self.assertEqual(self.weights("p"), self.weights("c", "data-x2"))

    def test_fewer_processes_than_are_launched(self):
        rows, _, _ = self.compare("--strategies", "data", "--devices", "2,3", "--no-predict", "--steps", "3", launch=("-n", "3"))
        self.assertEqual(len(rows), 1)  # by name
        self.assertEqual([row["devices"] for row in self.json("c.json")["rows"]], [2, 3])
        rows, printed, _ = self.compare("--strategies", "data", "--no-predict", "--steps", "3", out="d",
                                        launch=("--hosts", "127.0.0.1:1,127.0.0.2:1", "--ssh", self.shell_instead_of_ssh()))
        self.assertEqual(rows["data"]["status"], "ok", rows["data"]["reason"])
        self.assertIsNone(rows["data"]["predicted"])

    def test_a_killed_rank_is_the_reason_of_its_row_and_the_next_row_runs(self):
        process = self.launch("-n", "2", "compare", "e.toml", "--strategies", "data,single", "--no-predict", "--out", "c", "--json", "c.json",
                              "--set", "time_limit=4 s", *LONG)
        metrics = self.path("c", "data-x2", "metrics.jsonl")
        self.wait_for(process, lambda: os.path.exists(metrics))
        below = [pid for server in children_of(process.pid) for launcher in children_of(server) for pid in children_of(launcher)]
        self.assertEqual(len(below), 2)
        os.kill(max(below), signal.SIGKILL)
        self.assertEqual(process.wait(60 * BUSY), 1, process.said())
        failed, single = self.json("c.json")["rows"]
        self.assertEqual(failed["status"], "failed")
        self.assertRegex(failed["reason"], r"^rank 1 was ended by signal 9 \(Killed\).*rank 1 is gone")
        self.assertEqual(failed["reason"], self.json("c", "data-x2", "run.json")["rows"][0]["reason"])
        self.assertIn("rank 1 was ended by signal 9", text_of(self.path("c", "report.html")))
        self.assertIn(single["status"], ("ok", "timed out"))
        wait_until(lambda: not any(alive(pid) for pid in below), 5)

    def test_a_used_port_is_refused_at_once(self):
        with socket.create_server(("", 0)) as server:
            port = str(server.getsockname()[1])
            self.all_refused([(["launch", *TWO_HOSTS, "--interface", "lo", "--port", port, "compare", "e.toml"],
                               ["--port", port, "listens"])])

    def test_says_for_which_rank_it_waits(self):
        hanging = self.write("hang", "#!/bin/sh\nexec sleep 600\n")
        os.chmod(hanging, 0o755)
        process = self.launch(*TWO_HOSTS, "--interface", "lo", "--ssh", "./hang", "compare", "e.toml",
                              "--strategies", "data", "--out", "c")
        self.wait_for(process, lambda: "waiting for rank 1" in process.printed())
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(30 * BUSY), 0)

    def test_refuses(self):
        self.all_refused([
            (["launch", "-n", "2", "--print", "slurm", "compare", "e.toml"], ["--print", "trireme launch train"]),
            (["launch", "-n", "2", "--restarts", "1", "compare", "e.toml"], ["--restarts", "trireme launch train"]),
            (["launch", "-n", "1", "compare", "e.toml"], ["-n", "trireme compare"]),
            (["launch", "-n", "2", "compare", "e.toml", "--devices", "2,4"], ["--devices", "4", "2 processes"]),
            (["launch", "-n", "2", "--interface", "nosuch0", "compare", "e.toml"], ["--interface", "nosuch0"]),
            (["launch", *TWO_HOSTS, "--interface", "nosuch0", "compare", "e.toml"], ["--interface", "nosuch0"]),
            (["launch", *TWO_HOSTS, "compare", "e.toml"], ["--hosts", "localhost", "cannot reach"]),
            (["launch", *TWO_HOSTS, "--interface", "lo", "--token-file", "none", "compare", "e.toml"],
             ["--token-file", "none"]),
            (["launch", "-n", "2", "compare", "e.toml", "--set", "adapt=true"], ["adapt", "cannot change its plan"]),
            (["launch", "-n", "2", "compare", "e.toml", "--set", "cluster.link.bandwidth=1 MB/s"], ["cluster.link", "threads"]),
            (["launch", "-n", "2", "compare", "nowhere.toml"], ["nowhere.toml"]),
            (["train", "e.toml", "--measure", "step"], ["--measure", "comparison"]),
        ])
        self.refused("launch", "--ssh", "false", "--hosts", "x:1,y:1", "compare", "e.toml", code=1,
                     says=["2 processes on 2 machines", "could not be measured", "ended with exit code 1", "--no-predict"])
