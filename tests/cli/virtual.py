"""Training in modelled time from the command line."""
import os

import support
from support import CliTest

SERVERS = os.path.join("clusters", "64xcpu-1g.cluster.toml")


class VirtualTime(CliTest):
    def setUp(self):
        super().setUp()
        self.cluster = ["--backend", "virtual", "--cluster", os.path.join(support.EXAMPLES, SERVERS)]

    def row(self, *names):
        return self.json(*names, "run.json")["rows"][0]

    def test_a_described_cluster(self):
        out, _ = self.trireme("train", "e.toml", "--plan", "data", "--devices", "16", *self.cluster, "--out", "a")
        self.assertRegex(" ".join(out.split()), r"times are a model's: 64xcpu-1g .*by datasheets: an approximation")
        self.trireme("train", "e.toml", "--plan", "data", "--devices", "16", *self.cluster, "--out", "b")
        self.trireme("train", "e.toml", "--plan", "data", "--devices", "16", "--set", "replicas=private", "--out", "real")
        a, b, real = self.row("a"), self.row("b"), self.row("real")
        self.assertEqual((a["status"], a["backend"], a["devices"]), ("ok", "virtual", 16))
        self.assertEqual(a["curve"], b["curve"], "seconds too")
        self.assertEqual([point["loss"] for point in a["curve"]], [point["loss"] for point in real["curve"]])
        self.assertEqual(a["evaluations"][-1]["loss"], real["evaluations"][-1]["loss"])
        self.trireme("simulate", "e.toml", "--strategies", "data", "--devices", "16", "--cluster", self.cluster[-1], "--json", "s.json")
        simulated = self.json("s.json")["rows"][0]["step_seconds"]["median"]
        self.assertAlmostEqual(a["step_seconds"]["median"] / simulated, 1, delta=0.1)

    def test_replicas_that_agree(self):
        policy = ["train", "e.toml", "--plan", "local-sgd,every=2 steps", "--devices", "4"]
        self.trireme(*policy, *self.cluster, "--out", "a")
        self.trireme(*policy, "--set", f"update.virtual.cluster={self.cluster[-1]}", "--out", "b")
        self.trireme(*policy, "--out", "real")
        a, b, real = self.row("a"), self.row("b"), self.row("real")
        self.assertEqual((a["status"], a["backend"], a["replicas"]["clock"]), ("ok", "virtual", "modelled"))
        self.assertEqual(a["curve"], b["curve"], "the same clock, seconds too")
        self.assertEqual([e["loss"] for e in a["evaluations"]], [e["loss"] for e in real["evaluations"]])
        self.trireme(*policy, "--backend", "virtual", "--set", 'cluster.link.bandwidth="1 Gbit/s"', "--out", "here", seconds=120)
        self.assertEqual([e["loss"] for e in self.row("here")["evaluations"]], [e["loss"] for e in real["evaluations"]])

    def test_machines_like_this_one(self):
        times = []
        for bandwidth in ("1 Gbit/s", "10 Mbit/s"):
            out, _ = self.trireme("train", "e.toml", "--plan", "data", "--devices", "2", "--backend", "virtual", "--profile", "p.json",
                                  "--set", f'cluster.link.bandwidth="{bandwidth}"', "--out", bandwidth[:2].strip(), seconds=120)
            self.assertIn("this machine, as its layers were measured", " ".join(out.split()))
            times.append(self.row(bandwidth[:2].strip())["step_seconds"]["median"])
        again = ["train", "e.toml", "--plan", "data", "--devices", "2", "--backend", "virtual", "--profile", "p.json",
                 "--set", 'cluster.link.bandwidth="10 Mbit/s"']
        self.trireme(*again, "--out", "again", seconds=120)
        self.assertEqual(self.row("again")["curve"], self.row("10")["curve"], "the profile keeps what was measured")
        bytes_sent = self.row("10")["communication"]["bytes_per_step"]
        self.assertGreater(times[1], bytes_sent * 8 / 10e6 * 0.99)
        self.assertLess(times[0], times[1])

    def test_a_planner_plans_for_the_machines(self):
        self.trireme("train", "e.toml", "--plan", "exact", "--devices", "4", *self.cluster, "--out", "o")
        self.assertEqual(self.row("o")["status"], "ok")

    def test_goes_on_from_a_checkpoint(self):
        run = ["train", "e.toml", "--plan", "pipeline", "--devices", "2", *self.cluster, "--set", "checkpoint.every=2 steps"]
        self.trireme(*run, "--out", "whole")
        self.trireme("train", "e.toml", "--plan", "pipeline", "--devices", "2", *self.cluster, "--resume",
                     os.path.join("whole", "checkpoints", "step-00000004"), "--out", "rest")
        whole, rest = ({point["step"]: point["loss"] for point in self.row(name)["curve"]} for name in ("whole", "rest"))
        self.assertEqual(rest, {step: loss for step, loss in whole.items() if step > 4})

    def test_refuses(self):
        train = ["train", "e.toml", "--devices", "2"]
        self.all_refused([
            ([*train, "--backend", "virtual"], ["the links between the machines are not given", "--cluster", "cluster.link"]),
            ([*train, "--cluster", self.cluster[-1]], ["--cluster", "--backend virtual"]),
            ([*train, "--plan", "local-sgd", *self.cluster, "--set", "update.virtual.step_seconds=1 s"],
             ["update.virtual", "already describes the machines"]),
            ([*train, *self.cluster, "--set", "adapt=true"], ["adapt", "real time"]),
            ([*train, *self.cluster, "--set", 'cluster.link.bandwidth="1 Gbit/s"'], ["cluster.link", "64xcpu-1g", "leave out one"]),
            ([*train, "--backend", "virtual", "--set", 'cluster.link={bandwidth="1 Gbit/s", change=[{at_step=1, bandwidth="1 Mbit/s"}]}'],
             ["cluster.link.change", "cannot change"]),
            (["train", "e.toml", "--devices", "65", *self.cluster], ["64"]),
            (["launch", "-n", "2", "train", "e.toml", *self.cluster], ["--backend virtual", "threads of one process"]),
        ])
        self.environment.update(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29999")
        self.refused("train", "e.toml", *self.cluster, says=["threads of one process", "start it once"])
