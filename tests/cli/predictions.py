"""Predictions: `simulate`, `compare` with predicted beside measured, and `plan --objective`."""
import json
import statistics

from support import CliTest

CLUSTER = """
name = "pair"
description = "two small devices"

[device.toy]
flops = { fp32 = "1 TFLOP/s" }
greatest_efficiency = 0.5
half_work = "1 MFLOP"
memory = "MEMORY"
memory_bandwidth = "100 GB/s"
launch = "10 us"
source = "made up for a test"

[[node]]
count = 2
device = "toy"
devices = 2
link = { bandwidth = "10 GB/s", latency = "5 us" }
price_per_hour = 3.6

[network]
bandwidth = "10 Gbit/s"
latency = "20 us"

[price]
currency = "USD"
date = "2026-01"
source = "made up"
"""


class Predictions(CliTest):
    predicts = True

    def setUp(self):
        super().setUp()
        self.write("c.toml", CLUSTER.replace("MEMORY", "8 GiB"))
        self.write("small.toml", CLUSTER.replace("MEMORY", "300 KiB"))

    def test_simulate_on_a_described_cluster(self):
        strategies = "single,data,tensor,pipeline,1f1b"
        out, _ = self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--devices", "2,4", "--strategies", strategies, "--json", "s.json",
                              "--out", "run", "--set", "model.options.depth=4")
        for word in ("predicted", "datasheet", "prices: made up, 2026-01"):
            self.assertIn(word, out)
        result = self.json("s.json")
        self.assertIn("pair", result["simulated"])
        rows = {(row["name"], row["devices"]): row for row in result["rows"]}
        self.assertEqual(len(rows), 9)
        for name, row in rows.items():
            self.assertEqual(row["status"], "ok", name)
            self.assertGreater(row["step_seconds"]["median"], 0)
            # steps of an epoch, each of so many seconds, at 3.6 dollars an hour for each node
            nodes = (row["devices"] + 1) // 2
            self.assertAlmostEqual(row["price_per_epoch"], row["epoch_seconds"] * nodes * 0.001, 9)
        # four devices are two nodes, with a slow network between them
        self.assertGreater(rows["data", 4]["step_seconds"]["median"], rows["data", 2]["step_seconds"]["median"])
        trace = self.json("run/trace.json")
        self.assertTrue(any(event["ph"] == "X" for event in trace["traceEvents"]))

    def test_simulate_refuses(self):
        self.refused("simulate", "e.toml", "--cluster", "c.toml", "--profile", "p.json", says=["--cluster", "leave one of them out"])
        self.refused("simulate", "e.toml", "--cluster", "none.toml", says=["none.toml"])
        out, _ = self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--devices", "2,8", "--strategies", "data", code=1)
        self.assertIn("4", out)  # so many devices there are

    def test_compare_shows_predictions_and_keeps_what_it_measured(self):
        out, _ = self.trireme("compare", "e.toml", "--profile", "p.json", "--out", "o", "--set", "price.per_hour=7.2")
        self.assertIn("7.2 USD an hour", out)
        for row in self.json("o/run.json")["rows"]:
            self.assertAlmostEqual(row["price_per_epoch"], row["epoch_seconds"] * 0.002, delta=1e-9)
        self.assertIn("predicted step", out)
        self.assertIn("refit: steps took", out)
        rows = self.json("o/run.json")["rows"]
        for row in rows:
            self.assertGreater(row["predicted"]["step_seconds"], 0)
            self.assertEqual(row["predicted"]["basis"], "measured")
        with open(self.path("o/report.html"), encoding="utf-8") as report:
            self.assertIn("Predicted step times are within", report.read())
        before = self.json("p.json")
        self.assertGreater(len(before["layers"]), 3)
        (refit,) = before["refits"].values()
        ratios = [row["step_seconds"]["median"] / row["predicted"]["step_seconds"] for row in rows if not row["oversubscribed"]]
        self.assertEqual(refit["rows"], len(ratios))
        self.assertAlmostEqual(refit["factor"], statistics.median(ratios), delta=1e-9 * refit["factor"])
        out, _ = self.trireme("simulate", "e.toml", "--profile", "p.json")
        self.assertEqual(self.json("p.json")["layers"], before["layers"])  # nothing had to be measured again
        before["machine"]["cores"] = 1000
        self.write("other.json", json.dumps(before))
        self.refused("simulate", "e.toml", "--profile", "other.json", says=["other.json", "another machine"])

    def test_the_best_plan(self):
        out, err = self.trireme("plan", "e.toml", "--objective", "time", "--cluster", "c.toml", "--devices", "2", "--explain")
        plan = json.loads(out)
        self.assertEqual(plan["devices"], 2)
        for word in ("optimal under the step model", "simulated", "by formula"):
            self.assertIn(word, err)
        self.write("best.json", out)
        self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--devices", "2", "--strategies", "data,tensor,pipeline,best.json",
                     "--json", "s.json")
        seconds = {row["name"]: row["step_seconds"]["median"] for row in self.json("s.json")["rows"]}
        self.assertLessEqual(seconds["best"], min(seconds.values()) * (1 + 1e-9))
        self.trireme("train", "e.toml", "--plan", "best.json", "--out", "o")  # what is planned runs

    def test_a_plan_of_least_memory_and_none_that_fits(self):
        def fullest(objective):
            _, err = self.trireme("plan", "e.toml", "--objective", objective, "--cluster", "c.toml", "--devices", "4", "--explain")
            return err
        self.assertIn("fullest device", fullest("memory"))
        self.refused("plan", "e.toml", "--objective", "time", "--cluster", "small.toml", "--devices", "2", "--set", "model.options.hidden=4096",
                     says=["no plan fits", "lacks", "weights"])
        self.refused("plan", "e.toml", "--objective", "speed", says=["--objective"])
        self.refused("plan", "e.toml", "--explain", says=["--explain", "--objective"])
