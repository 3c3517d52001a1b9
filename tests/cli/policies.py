"""Update policies as strategies: real time, the modelled clock, and refused settings."""
import math
import os

from support import CliTest

MODELLED = """
[update.virtual]
step_seconds = "10 ms"
sample_seconds = "1 ms"
"""


class Policies(CliTest):
    def modelled(self, extra=""):
        with open(self.path("e.toml"), "a", encoding="utf-8") as f:
            f.write(MODELLED + extra)

    def test_compare_has_a_row_for_each(self):
        strategies = "data,local-sgd,every=2 steps,async-average,fedavg,rounds=2,local=1 epochs"
        out, _ = self.trireme("compare", "e.toml", "--no-predict", "--strategies", strategies, "--json", "c.json", "--out", "run", "--details")
        rows = {row["name"]: row for row in self.json("c.json")["rows"]}
        self.assertEqual(list(rows), ["data", "local-sgd,every=2 steps", "async-average", "fedavg,rounds=2,local=1 epochs"])
        for name, row in rows.items():
            self.assertEqual(row["status"], "ok", (name, row["reason"]))
            self.assertEqual(row["replicas"] is None, name == "data")
        local = rows["local-sgd,every=2 steps"]
        self.assertEqual(local["plan"], "2 x one device")
        self.assertEqual(len(local["curve"]), 6)
        self.assertEqual([e["samples"] for e in local["evaluations"]], [96, 192])
        for words in ("trained for", "waiting for others", "sent by all replicas", "staleness", "median / most", "test, equal time"):
            self.assertIn(words, out)

    def test_rounds_that_do_not_end_after_the_steps_are_skipped(self):
        self.trireme("compare", "e.toml", "--no-predict", "--strategies", "single,fedavg,rounds=2", "--steps", "4", "--json", "c.json",
                     "--out", "run")
        rows = {row["name"]: row for row in self.json("c.json")["rows"]}
        self.assertEqual(rows["single"]["status"], "ok")
        self.assertEqual(rows["fedavg,rounds=2"]["status"], "skipped")
        self.assertIn("--steps: 4: the run of fedavg ends after rounds = 2", rows["fedavg,rounds=2"]["reason"])
        self.assertFalse(os.path.exists(self.path("run", "fedavg-rounds-2-x2")), "it never began")

    def test_the_modelled_clock(self):
        self.modelled()
        self.trireme("train", "e.toml", "--plan", "local-sgd,every=6 steps", "--devices", "4", "--json", "a.json",
                     "--set", "device_speeds=1,1,1,0.5")
        row = self.json("a.json")["rows"][0]
        # six steps of the slow worker of four: 10 ms and 8 samples of 1 ms at half the speed; without links an exchange takes no time
        self.assertAlmostEqual(row["evaluations"][-1]["seconds"], 6 * 0.018 * 2, 9)
        self.assertEqual(row["replicas"]["clock"], "modelled")
        self.trireme("train", "e.toml", "--plan", "async-average", "--devices", "4", "--json", "b.json", "--set", "update.batch_of=replica")
        row = self.json("b.json")["rows"][0]
        self.assertEqual(row["curve"][0]["samples"], 4 * 32)
        self.assertTrue(math.isfinite(row["curve"][-1]["loss"]))

    def test_synchronous_is_a_row_of_the_modelled_clock(self):
        self.modelled('[[update.virtual.failure]]\nworker = 3\nat = "20 ms"\nback_after = "1 s"\n')
        strategies = "synchronous,synchronous,shares=speed,async-average"
        out, _ = self.trireme("compare", "e.toml", "--no-predict", "--strategies", strategies, "--devices", "4", "--json", "c.json",
                              "--set", "device_speeds=1,1,1,0.25")
        rows = {row["name"]: row for row in self.json("c.json")["rows"]}
        for name, row in rows.items():
            self.assertEqual(row["status"], "ok", (name, row["reason"]))
            self.assertEqual(row["replicas"]["count"], 4)
            self.assertEqual(row["replicas"]["clock"], "modelled")
            self.assertTrue(any("worker 3 failed after 20.0 ms" in warning for warning in row["warnings"]), row["warnings"])
        # 8 samples per worker; the last has a quarter of the speed and fails in its first step, which begins again a second later
        self.assertAlmostEqual(rows["synchronous"]["evaluations"][-1]["seconds"], 6 * 0.018 * 4 + 1.02, 9)
        self.assertEqual(rows["synchronous"]["plan"], "data 4")
        self.assertRegex(rows["synchronous,shares=speed"]["plan"], "data 4, speeds 1:1:1:0.2")
        for name in ("synchronous", "async-average"):
            self.assertIn(name, out)

    def test_times_of_a_cluster(self):
        cluster = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "clusters", "64xcpu-1g.cluster.toml")
        with open(self.path("e.toml"), "a", encoding="utf-8") as f:
            f.write(f'[update.virtual]\ncluster = "{os.path.abspath(cluster)}"\n')
        self.trireme("train", "e.toml", "--plan", "synchronous", "--devices", "4", "--json", "a.json")
        self.trireme("simulate", "e.toml", "--strategies", "single", "--cluster", cluster, "--json", "s.json", "--set", "batch=8")
        row, simulated = self.json("a.json")["rows"][0], self.json("s.json")["rows"][0]
        exchange = row["communication"]["bytes_per_step"] / 125e6 + 4 * 50e-6
        self.assertAlmostEqual(row["step_seconds"]["median"], simulated["step_seconds"]["median"] + exchange, 6)
        self.assertTrue(any("64xcpu-1g" in warning for warning in row["warnings"]), row["warnings"])

    def test_hogwild(self):
        out, _ = self.trireme("compare", "e.toml", "--no-predict", "--strategies", "single,hogwild", "--set", "optimizer.momentum=0",
                              "--json", "c.json", "--out", "run", "--details")
        rows = {row["name"]: row for row in self.json("c.json")["rows"]}
        self.assertEqual([row["status"] for row in rows.values()], ["ok", "ok"])
        replicas = rows["hogwild"]["replicas"]
        self.assertEqual(replicas["bytes_sent"], 0)
        self.assertEqual(sum(replicas["staleness"]), 2 * 6)  # every step of each replica
        self.assertIn("staleness", out)

    def test_the_same_seed_gives_the_same_run(self):
        self.modelled("jitter = 0.5\n")
        for name in ("a.json", "b.json"):
            self.trireme("train", "e.toml", "--plan", "downpour", "--devices", "3", "--json", name, "--set", "optimizer.momentum=0")
        a, b = (self.json(name)["rows"][0] for name in ("a.json", "b.json"))
        self.assertEqual(a["curve"], b["curve"])
        self.assertEqual(a["evaluations"], b["evaluations"])
        self.assertEqual(a["replicas"]["staleness"], b["replicas"]["staleness"])

    def test_an_agreement_is_part_of_the_plan(self):
        policy = "local-sgd,every=2 steps,inner=pipeline=2"
        out, _ = self.trireme("plan", "show", policy, "e.toml", "--devices", "4", "--worker", "1")
        self.assertIn("2 replicas of the plan below, on 2 devices each; agreement: local-sgd,every=2 steps", out)
        instructions = out[out.index("one step:"):].split("\n")
        self.assertEqual(instructions[1].strip(), "agree before the step")
        self.assertIn("agree after the step", instructions[-3] + instructions[-2])
        self.trireme("train", "e.toml", "--plan", policy, "--devices", "4", "--out", "a")
        plan = self.json("a", "plan.json")
        self.assertEqual((plan["replicas"], plan["agreement"], plan["devices"]), (2, "local-sgd,every=2 steps", 2))
        self.trireme("train", "e.toml", "--plan", os.path.join("a", "plan.json"), "--set", "data.workers=1", "--out", "b")
        a, b = (self.json(name, "run.json")["rows"][0] for name in "ab")
        self.assertEqual((a["plan"], a["devices"]), ("2 x pipeline 2, 8 micro-batches", 4))
        self.assertEqual(a["evaluations"][-1]["loss"], b["evaluations"][-1]["loss"], "loading threads change no result")

    def test_inner_plans_divide_moments_and_weights(self):
        cluster = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "clusters", "64xcpu-1g.cluster.toml")
        modelled = ["--backend", "virtual", "--cluster", cluster]
        losses = []
        for sharding in ("none", "zero1", "zero3"):
            policy = f"diloco,every_steps=2,inner=data=2,sharding={sharding}"
            for backend in ([], modelled):
                self.trireme("train", "e.toml", "--plan", policy, "--devices", "4", *backend, "--set", "precision=fp64", "--json", "a.json")
                row = self.json("a.json")["rows"][0]
                self.assertEqual((row["status"], len(row["memory_bytes"])), ("ok", 4), row["reason"])
                losses.append(row["evaluations"][-1]["loss"])
                self.assertAlmostEqual(losses[-1], losses[0], 10, msg=policy)
        self.assertEqual(row["plan"], "2 x data 2, zero3")

    def test_options_of_the_file_are_part_of_the_plan(self):
        self.trireme("plan", "show", "easgd,period=3", "e.toml", "--set", "update.easgd.beta=0.5", "--json", "p.json")
        self.assertEqual(self.json("p.json")["agreement"], "easgd,beta=0.5,period=3")

    def test_every_policy_is_predicted(self):
        cluster = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "clusters", "64xcpu-1g.cluster.toml")
        policies = ["local-sgd,every=2 steps", "async-average", "partial", "easgd", "eamsgd", "downpour", "shat", "hogwild", "gossip",
                    "diloco,every_steps=2",
                    "streaming-diloco,every_steps=4", "fedavg,rounds=2", "fedprox,rounds=2", "fedadam,rounds=2",
                    "local-sgd,every=2 steps,inner=tensor=2", "local-sgd,every=2 steps,inner=data=2,sharding=zero3"]
        self.trireme("simulate", "e.toml", "--cluster", cluster, "--devices", "4", "--set", "optimizer.momentum=0",
                     "--strategies", ",".join(policies), "--json", "s.json")
        rows = {row["name"]: row for row in self.json("s.json")["rows"]}
        self.assertEqual(list(rows), policies)
        for name, row in rows.items():
            self.assertEqual(row["status"], "ok", (name, row["reason"]))
            self.assertGreater(row["step_seconds"]["median"], 0, name)
        # in every second step a ring of 4 moves 3/2 of the weights over 1 Gbit/s in 4 rounds of 50 us
        weights = 4 * (784 * 32 + 32 + 32 * 32 + 32 + 32 * 10 + 10)
        alone = rows["local-sgd,every=2 steps"]["step_seconds"]["median"] * rows["local-sgd,every=2 steps"]["busy_share"][0]
        self.assertAlmostEqual(
            rows["local-sgd,every=2 steps"]["step_seconds"]["median"] / (alone + (1.5 * weights / 125e6 + 4 * 50e-6) / 2), 1, delta=0.01)

    def test_predicted_beside_what_the_modelled_clock_measured(self):
        self.modelled('link.bandwidth = "10 MB/s"\nlink.latency = "1 ms"\n')
        self.predicts = True
        strategies = "local-sgd,every=2 steps,diloco,every_steps=3,synchronous,gossip,compression=bf16"
        self.trireme("compare", "e.toml", "--strategies", strategies, "--devices", "2", "--json", "c.json", "--out", "run")
        for row in self.json("c.json")["rows"]:
            seconds = row["evaluations"][-1]["seconds"] / 6
            self.assertAlmostEqual(row["predicted"]["step_seconds"] / seconds, 1, delta=0.02, msg=row["name"])

    def test_refuses(self):
        self.all_refused([
            (["train", "e.toml", "--plan", "local-sdg"], ["local-sdg", 'did you mean "local-sgd"?']),
            (["train", "e.toml", "--plan", "local-sgd,every=3 parsecs"], ["local-sgd", "every"]),
            (["train", "e.toml", "--plan", "local-sgd,evry=3 steps"], ["evry", "every"]),
            (["train", "e.toml", "--plan", "local-sgd,inner=pipelin=2"], ["local-sgd,inner=pipelin=2", "pipelin"]),
            (["train", "e.toml", "--plan", "local-sgd,inner=pipeline=2", "--devices", "3"],
             ["3 workers", "not a whole number of replicas"]),
            (["train", "e.toml", "--plan", "local-sgd,inner=data=2,compression=bf16"],
             ["compression=bf16", "the whole weights and moments"]),
            (["train", "e.toml", "--plan", "hogwild,inner=data=2,sharding=zero1", "--set", "optimizer.momentum=0"],
             ["zero1", "write to one memory"]),
            (["train", "e.toml", "--plan", "downpour", "--set", "optimizer.momentum=0.9"], ["downpour", "momentum"]),
            (["train", "e.toml", "--plan", "hogwild", "--set", "optimizer.momentum=0.9"], ["hogwild", "momentum"]),
            (["train", "e.toml", "--plan", "hogwild", "--set", "optimizer.momentum=0", "--set", "cluster.link.bandwidth=1 MB/s"],
             ["cluster.link", "hogwild"]),
            (["train", "e.toml", "--plan", "hogwild,every=1 steps"], ["every"]),
            (["train", "e.toml", "--plan", "local-sgd", "--set", "batch=1"], ["2 replicas", "batch of 1"]),
            (["train", "e.toml", "--plan", "local-sgd", "--set", "update.shares=lables"], ["update.shares", '"labels"']),
            (["train", "e.toml", "--plan", "local-sgd", "--set", "update.local-sgd.evry=1"], ["evry"]),
            (["train", "e.toml", "--plan", "local-sgd", "--set", "update.polcy=x"], ["update.polcy"]),
            (["compare", "e.toml", "--set", "update.easgd.perod=4"], ["perod", "period"]),
            (["train", "e.toml", "--plan", "local-sgd", "--set", "update.virtual.jitter=0.1"], ["step_seconds"]),
            (["train", "e.toml", "--plan", "synchronous"], ["synchronous", "update.virtual", "use data"]),
            (["train", "e.toml", "--plan", "local-sgd,every=4 steps,overlap=5"], ["overlap", "before the next"]),
            (["train", "e.toml", "--plan", "gossip,graph=random,compression=sign"], ["compression", "on a random graph"]),
            (["train", "e.toml", "--plan", "gossip,gamma=0.5"], ["gamma", "give compression too"]),
            (["train", "e.toml", "--plan", "local-sgd", "--set", "update.virtual.step_seconds=1 s", "--set", "update.virtual.cluster=c"],
             ["step_seconds", "cluster"]),
            (["verify", "e.toml", "--plan", "local-sgd"], ["local-sgd"]),
            (["train", "e.toml", "--plan", "fedavg,rounds=2", "--steps", "4"],
             ["--steps: 4", "fedavg ends after rounds = 2", "leave out --steps, or leave out rounds"]),
            (["train", "e.toml", "--plan", "fedadam", "--steps", "4"],
             ["--steps: 4", "local = 1 epochs", "\"fedadam,rounds=1\"", "\"fedadam,local=4 steps\""]),
            (["train", "e.toml", "--plan", "fedprox,local=5 steps", "--steps", "4"], ["--steps: 4", "fedprox", "local = 5 steps"]),
        ])
