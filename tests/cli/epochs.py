"""End-to-end time: `measure-epochs`, `plan project`, and the noise scale of a training."""
import json
import os

import support
from predictions import CLUSTER
from support import CliTest

QUICK = ["--set", "target=0.9", "--set", "evaluate_every=0.5 epochs", "--set", "optimizer.schedule=constant"]


class Epochs(CliTest):
    def test_measures_and_goes_on(self):
        arguments = ["measure-epochs", "e.toml", *QUICK, "--set", "length=8 epochs", "--out", "m.json", "--micro-batch", "32"]
        out, _ = self.trireme(*arguments, "--batches", "16,64")
        self.assertIn("reached", out)
        first = self.json("m.json")
        self.assertEqual([m["batch"] for m in first["batches"]], [16, 64])
        self.assertEqual([m["micro_batches"] for m in first["batches"]], [1, 2])
        for m in first["batches"]:
            self.assertTrue(m["reached"], m)
            self.assertAlmostEqual(m["epochs"], m["steps"] * m["batch"] / 256)
            self.assertAlmostEqual(m["epochs"] % 0.5, 0)  # the test set is evaluated this often
            self.assertAlmostEqual(m["learning_rate"], 0.05 * m["batch"] / 32)
        self.assertEqual(first["settings"]["rate_rule"], "linear")
        self.trireme(*arguments, "--batches", "16,64,128")
        second = self.json("m.json")
        self.assertEqual(second["batches"][:2], first["batches"])  # also the times are equal: nothing was trained again
        self.assertEqual(second["batches"][2]["micro_batches"], 4)
        self.refused(*arguments, "--batches", "16", "--rate", "sqrt", says=["m.json", "other settings", "rate_rule", "--out"])
        self.refused(*arguments, "--batches", "512", says=["--batches", "512", "256 samples"])

    def test_what_is_not_reached_is_said(self):
        out, _ = self.trireme("measure-epochs", "e.toml", "--set", "target=0.999", "--set", "length=2 steps", "--batches", "32",
                              "--rate", "fixed")
        self.assertIn("not reached", out)
        point = self.json("small.epochs.json")["batches"][0]
        self.assertFalse(point["reached"])
        self.assertEqual((point["steps"], point["epochs"], point["learning_rate"]), (2, 0.25, 0.05))

    def test_trains_without_a_target_no_epochs(self):
        with open(self.path("e.toml"), encoding="utf-8") as f:
            self.write("none.toml", f.read().replace("target = 0.2\n", ""))
        self.refused("measure-epochs", "none.toml", "--batches", "32", says=["none.toml", "no target"])
        self.refused("measure-epochs", "e.toml", "--batches", "32,512", "--out", "late.json",
                     says=["--batches", "512", "256 samples"])
        self.assertFalse(os.path.exists(self.path("late.json")), "the first batch was trained before the second was refused")

    def test_the_noise_scale_of_a_run(self):
        self.trireme("train", "e.toml", "--plan", "data", "--set", "noise_scale=true", "--out", "o")
        self.assertGreater(self.json("o/run.json")["rows"][0]["noise_scale"], 0)
        out, _ = self.trireme("train", "e.toml", "--plan", "tensor", "--set", "noise_scale=true", "--out", "p")
        self.assertIn("the gradient noise scale is not estimated: the plan divides layers", out)
        self.assertIsNone(self.json("p/run.json")["rows"][0]["noise_scale"])
        out, _ = self.trireme("train", "e.toml", "--plan", "single,micro_batches=4", "--set", "noise_scale=true", "--details", "--out", "q")
        self.assertIn("noise scale", out)


class Projection(CliTest):
    def setUp(self):
        super().setUp()
        self.write("c.toml", CLUSTER.replace("MEMORY", "8 GiB"))

    def simulated(self, strategy, batch):
        self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--strategies", strategy, "--set", f"batch={batch}", "--json", "s.json")
        return self.json("s.json")["rows"][0]["step_seconds"]["median"]

    def test_times_to_the_target(self):
        out, err = self.trireme("plan", "project", "e.toml", "--devices", "1..4", "--cluster", "c.toml", "--json", "a.json",
                                "--epochs", "32:4,64:5,128:20", "--epoch-samples", "12800")
        for word in ("assumed", "approximation", "made up, 2026-01", "32 samples for every data-parallel worker",
                     "32 samples in every global batch"):
            self.assertIn(word, err)
        per_worker, whole = self.json("a.json")["projections"]
        found = [row[kind] for rows in (per_worker["rows"], whole["rows"]) for row in rows for kind in ("data", "hybrid") if row[kind]]
        best = self.json("a.json")["best"]
        self.assertEqual(best["seconds"], min(f["seconds"] for f in found))
        self.assertIn(f"the plan of {best['strategy']} on {best['devices']} device", err)
        self.write("best.json", out)
        self.assertEqual(json.loads(out)["devices"], best["devices"])
        self.trireme("train", "e.toml", "--plan", "best.json", "--set", f"batch={best['batch']}", "--steps", "2", "--out", "t")
        self.assertEqual([row["devices"] for row in per_worker["rows"]], [1, 2, 4])
        epochs = {32: 4, 64: 5, 128: 20}
        for rows, batch_on in ((per_worker["rows"], lambda workers: 32 * workers), (whole["rows"], lambda workers: 32)):
            for row in rows:
                for kind, found in (("data", row["data"]), ("hybrid", row["hybrid"])):
                    if found is None:
                        self.assertEqual((kind, row["devices"]), ("hybrid", 1))
                        continue
                    workers = row["devices"] // found["model_degree"]
                    self.assertEqual(found["batch"], batch_on(workers))
                    self.assertEqual(found["epochs"], epochs[found["batch"]])
                    self.assertAlmostEqual(found["seconds"] / (found["step_seconds"] * 12800 / found["batch"] * found["epochs"]), 1)
                    nodes = (row["devices"] + 1) // 2
                    self.assertAlmostEqual(found["price"] / (found["seconds"] * nodes * 0.001), 1)
        # the simulator gives the steps, and the hybrid is the best of all
        four = per_worker["rows"][2]
        self.assertAlmostEqual(four["data"]["step_seconds"] / self.simulated("data=4", 128), 1)
        seconds = {}
        for strategy, batch in (("data=2,tensor=2", 64), ("data=2,pipeline=2,schedule=1f1b", 64), ("data=1,tensor=4", 32),
                                ("data=1,pipeline=4,schedule=1f1b", 32)):
            try:
                seconds[strategy] = self.simulated(strategy, batch) * 12800 / batch * epochs[batch]
            except AssertionError:
                continue  # this plan does not exist for the model
        best = min(seconds, key=seconds.get)
        self.assertEqual(four["hybrid"]["strategy"], best)
        self.assertAlmostEqual(four["hybrid"]["seconds"] / seconds[best], 1)
        wins = [row["devices"] for row in per_worker["rows"] if row["hybrid"] and row["hybrid"]["seconds"] < row["data"]["seconds"]]
        self.assertEqual(per_worker["crossover"], wins[0] if wins else None)

    def test_the_plan_of_a_placement(self):
        gnmt, machines = (os.path.join(support.EXAMPLES, "studies", name) for name in ("hybrid-gnmt.toml", "slow-dgx1.cluster.toml"))
        cluster = ["--cluster", machines]
        out, err = self.trireme("plan", "project", gnmt, "--devices", "2,4", *cluster, "--batch-per-worker", "8", "--json", "a.json",
                                "--epochs", "8:1,16:1,32:4", "--epoch-samples", "1600")
        two, four = self.json("a.json")["projections"][0]["rows"]
        self.assertEqual(two["hybrid"]["strategy"], "placement")
        self.assertEqual(four["hybrid"]["strategy"], "placement 2 x data 2")
        self.assertIn("the plan of placement 2 x data 2 on 4 devices", err)
        # The printed plan simulates as it was projected, and so does the strategy alone.
        self.write("plan.json", out)
        for plan, row in ((["--strategies", "plan.json", "--set", "batch=16"], four),
                          (["--strategies", "placement", "--devices", "2", "--set", "batch=8"], two)):
            self.trireme("simulate", gnmt, *cluster, *plan, "--json", "s.json")
            simulated = self.json("s.json")["rows"][0]["step_seconds"]["median"]
            self.assertAlmostEqual(row["hybrid"]["step_seconds"] / simulated, 1)

    def test_a_batch_that_does_not_get_there(self):
        out, _ = self.trireme("plan", "project", "e.toml", "--devices", "2,4", "--cluster", "c.toml", "--json", "-",
                              "--epochs", "64:4,128:-")
        self.write("a.json", out)
        rows = self.json("a.json")["projections"][0]["rows"]
        self.assertIsNone(rows[1]["data"]["seconds"])
        self.assertEqual(rows[1]["data"]["epochs_basis"], "not reached with batch 128")
        self.assertGreater(rows[1]["hybrid"]["seconds"], 0)

    def test_what_is_too_full_is_left_out(self):
        self.write("small.toml", CLUSTER.replace("MEMORY", "700 KiB"))
        _, err = self.trireme("plan", "project", "e.toml", "--devices", "1..4", "--cluster", "small.toml", "--json", "a.json",
                              "--epochs", "noise=100", "--set", "model.options.hidden=96")
        self.assertRegex(err, "left out, because they do not fit into the devices' memory: .*data=1 with a batch of 32;")
        rows = self.json("a.json")["projections"][0]["rows"]
        self.assertIsNone(rows[0]["data"])
        self.assertIsNotNone(rows[2]["hybrid"])

    def test_refuses(self):
        accuracy = ["plan", "project", "e.toml", "--cluster", "c.toml"]
        self.refused(*accuracy, says=["--epochs"])
        self.refused(*accuracy, "--epochs", "sixty-four", says=["--epochs", "sixty-four", "noise=2000"])
        self.refused(*accuracy, "--epochs", "noise=100", "--explain", says=["--explain", "trireme plan project --help"])
        self.refused(*accuracy, "--epochs", "256:4,256:8", says=["--epochs", "256:8", "given twice"])
        self.refused(*accuracy, "--epochs", "noise=100", "--batch-per-worker", "257",
                     says=["--batch-per-worker", "257", "256 samples", "--epoch-samples"])
        _, err = self.trireme(*accuracy, "--epochs", "noise=100", "--batch-per-worker", "200", "--devices", "2")
        self.assertIn("left out, because an epoch has fewer samples: data=2 with a batch of 400", err)
        self.refused(*accuracy, "--epochs", "noise=100", "--devices", "4..2", says=["--devices", "4..2"])
        self.refused(*accuracy, "--epochs", "noise=100", "--devices", "1..8", says=["4"])
        self.refused("plan", "best", "e.toml", "--devices", "1..4", says=["--devices", "1..4", "whole number"])
        self.refused("plan", "best", "e.toml", "--epochs", "32:4", says=["--epochs", "trireme plan best --help"])
