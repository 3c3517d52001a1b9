"""A batch per device: the global batch of a row follows from its devices, in every verb that has rows."""
import json

from predictions import CLUSTER
from support import CliTest

EACH = ["--set", "batch=16 per device"]
EXACT = ["--set", "precision=fp64", "--set", "length=2 epochs", "--set", "evaluate_every=1 epochs"]


class PerDevice(CliTest):
    def curve(self, *names):
        """What a run learned, and with which learning rates."""
        row = self.json(*names, "run.json")["rows"][0]
        self.assertEqual(row["status"], "ok", row["reason"])
        return [(point["step"], point["samples"], point["loss"], point["learning_rate"]) for point in row["curve"]]

    def same_training(self, name, other):
        """Expects equal curves: the same steps, samples and learning rates, and losses up to rounding."""
        one, two = self.curve(name), self.curve(other)
        self.assertEqual([(step, samples) for step, samples, _, _ in one], [(step, samples) for step, samples, _, _ in two])
        for (_, _, loss, rate), (_, _, other_loss, other_rate) in zip(one, two, strict=True):
            self.assertAlmostEqual(loss, other_loss, delta=1e-9 * abs(other_loss))
            self.assertAlmostEqual(rate, other_rate, delta=1e-12)

    def test_each_row_has_its_own_batch(self):
        self.write("e.toml", self.text("e.toml").replace("batch = 32", 'batch = "32 per device"') + "reference_batch = 32\n")
        out, err = self.trireme("compare", "e.toml", "--strategies", "single,data,hybrid:tensor", "--devices", "2,4", *EXACT,
                                "--out", "c", "--json", "c.json", "--details")
        self.assertIn("batch 32 per device", out + err)
        self.assertIn("32 samples per device, so rows on different numbers of devices", " ".join(out.split()))
        result = self.json("c.json")
        self.assertEqual((result["batch"], result["batch_per_device"]), (0, 32))
        rows = {(row["name"], row["devices"]): row for row in result["rows"]}
        self.assertEqual(rows.pop(("hybrid:tensor", 2))["status"], "skipped")  # it needs four devices
        self.assertEqual({key: row["batch"] for key, row in rows.items()},
                         {("single", 1): 32, ("data", 2): 64, ("data", 4): 128, ("hybrid:tensor", 4): 128})
        single = rows["single", 1]
        for key, row in rows.items():
            self.assertEqual(row["status"], "ok", row["reason"])
            batch, point = row["batch"], row["curve"][-1]
            self.assertEqual((point["step"], point["samples"]), (2 * 256 // batch, 2 * 256), key)
            self.assertAlmostEqual(row["samples_per_second"] * row["step_seconds"]["median"] / batch, 1, places=6, msg=key)
            self.assertAlmostEqual(row["curve"][0]["learning_rate"], 0.05 * batch / 32, places=9, msg=key)
            self.assertAlmostEqual(row["epoch_seconds"] * row["samples_per_second"] / 256, 1, places=6, msg=key)
            weak = row["samples_per_second"] / row["devices"] / single["samples_per_second"]
            self.assertAlmostEqual(row["scaling_efficiency"] / weak, 1, places=6, msg=key)
        for devices, folder in ((2, "data-x2"), (4, "data-x4")):
            plain = f"plain-{devices}"
            self.trireme("train", "e.toml", "--plan", "data", "--devices", str(devices), *EXACT, "--set", f"batch={32 * devices}",
                         "--out", plain)
            self.same_training(f"c/{folder}", plain)
            self.assertEqual(self.json(plain, "run.json")["batch_per_device"], None)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def test_train_and_verify(self):
        for plan, devices, batch in (("single", "1", 16), ("data", "4", 64), ("data=2,tensor=2", "4", 64), ("pipeline", "2", 32)):
            with self.subTest(plan=plan):
                name = plan.replace("=", "-").replace(",", "-")
                out, _ = self.trireme("train", "e.toml", *EACH, *EXACT, "--plan", plan, "--devices", devices, "--out", name)
                self.assertIn(f"batch: {batch} samples, 16 on each of", out)
                result = self.json(name, "run.json")
                self.assertEqual((result["batch"], result["batch_per_device"]), (batch, 16))
                self.trireme("train", "e.toml", *EXACT, "--set", f"batch={batch}", "--plan", plan, "--devices", devices,
                             "--out", f"{name}-plain")
                self.same_training(name, f"{name}-plain")
        out, _ = self.trireme("verify", "e.toml", *EACH, "--plan", "data", "--devices", "4")
        self.assertIn("batch: 64 samples, 16 on each of 4 devices", out)
        self.assertIn("equal", out)

    def test_a_plan_file_has_its_own_devices(self):
        self.trireme("plan", "show", "data", "e.toml", "--devices", "4", "--json", "p.json", *EACH)
        out, _ = self.trireme("train", "e.toml", *EACH, "--plan", "p.json", "--out", "o")
        self.assertIn("batch: 64 samples, 16 on each of 4 devices", out)
        out, _ = self.trireme("plan", "show", "data", "e.toml", "--devices", "2", *EACH)
        self.assertIn("batch: 32 samples, 16 on each of 2 devices", out)

    def test_replicas_under_a_policy(self):
        """16 samples per device, whether `batch` counts those of all replicas or of each, which has two devices."""
        policy = ["--plan", "local-sgd,every=2 steps,inner=data=2", "--devices", "4"]
        for name, batch_of in (("all", "all"), ("each", "replica")):
            self.trireme("train", "e.toml", *EACH, *EXACT, *policy, "--set", f"update.batch_of={batch_of}", "--out", name)
        self.trireme("train", "e.toml", "--set", "batch=64", *EXACT, *policy, "--out", "plain")
        losses = [self.json(name, "run.json")["rows"][0]["test"]["loss"] for name in ("all", "each", "plain")]
        for loss in losses:
            self.assertAlmostEqual(loss, losses[-1], delta=1e-9 * losses[-1])

    def test_a_resumed_run_keeps_the_batch(self):
        every = ["--set", "checkpoint.every=2 steps"]
        self.trireme("train", "e.toml", *EXACT, *EACH, *every, "--plan", "data", "--devices", "2", "--out", "first",
                     "--set", "length=4 steps", "--set", "optimizer.schedule=constant")
        out, _ = self.trireme("train", "e.toml", *EXACT, *EACH, *every, "--plan", "single", "--resume", "first", "--out", "second",
                              "--set", "optimizer.schedule=constant")
        self.assertIn("batch: 32 samples, those of the checkpoint; 16 on each of 1 device would be 16", " ".join(out.split()))
        self.trireme("train", "e.toml", *EXACT, "--set", "batch=32", "--set", "optimizer.schedule=constant", "--out", "constant")
        self.assertEqual([point[:2] for point in self.curve("second")], [point[:2] for point in self.curve("constant")[4:]])
        for (_, _, loss, _), (_, _, other, _) in zip(self.curve("second"), self.curve("constant")[4:], strict=True):
            self.assertAlmostEqual(loss, other, delta=1e-9 * other)

    def test_phases(self):
        self.write("e.toml", self.text("e.toml") + """
[[phase]]
length = "1 epochs"
batch = "8 per device"

[[phase]]
length = "1 epochs"
batch = 64
""")
        self.trireme("train", "e.toml", "--plan", "data", "--devices", "2", "--out", "o")
        batches = [self.json("o", f"phase-{k}", "run.json")["rows"][0]["curve"][0]["samples"] for k in (1, 2)]
        self.assertEqual(batches, [16, 64])

    def test_predictions(self):
        self.write("c.toml", CLUSTER.replace("MEMORY", "8 GiB"))
        self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--strategies", "single,data", "--devices", "2,4", *EACH,
                     "--epochs", "16:2,32:3,64:5", "--json", "s.json")
        result = self.json("s.json")
        self.assertEqual((result["batch"], result["batch_per_device"]), (0, 16))
        self.assertEqual([(row["devices"], row["batch"], row["to_target"]["epochs"]) for row in result["rows"]],
                         [(1, 16, 2), (2, 32, 3), (4, 64, 5)])
        for row in result["rows"]:
            self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--strategies", row["name"], "--devices", str(row["devices"]),
                         "--set", f"batch={row['batch']}", "--json", "one.json")
            alone = self.json("one.json")["rows"][0]
            self.assertAlmostEqual(row["step_seconds"]["median"] / alone["step_seconds"]["median"], 1, places=9)
            self.assertAlmostEqual(row["epoch_seconds"] / alone["epoch_seconds"], 1, places=9)
        out, _ = self.trireme("plan", "project", "e.toml", "--cluster", "c.toml", "--devices", "1,2,4", *EACH, "--json", "-",
                              "--epochs", "16:2,32:3,64:5")
        projection, = json.loads(out)["projections"]
        self.assertEqual((projection["batch_is"], projection["batch"]), ("per device", 16))
        self.assertEqual([row["data"]["batch"] for row in projection["rows"]], [16, 32, 64])
        _, err = self.trireme("plan", "best", "e.toml", "--cluster", "c.toml", "--devices", "4", *EACH)
        self.assertIn("batch: 64 samples, 16 on each of 4 devices", err)

    def test_study(self):
        self.write("s.study.toml", """
title = "Weak scaling"
[[runs]]
name = "weak"
experiment = "e.toml"
set = ["length=4 steps", "batch=16 per device"]
[[parts]]
title = "Rows"
table = ["batch", "efficiency"]
""")
        self.trireme("study", "s.study.toml", "--out", "o")
        for folder, batch in (("single", 16), ("data-x2", 32)):
            self.assertEqual([point[1] for point in self.curve("o", "weak", folder)], [batch * step for step in range(1, 5)])
        self.write("s.study.toml", self.text("s.study.toml").replace("set =", "batch_per_worker = 8\nset ="))
        out, _ = self.trireme("study", "s.study.toml", "--out", "p", code=1)
        self.assertIn("gives a batch per device", " ".join(out.split()))

    def test_rows_that_cannot_have_their_batch(self):
        self.trireme("compare", "e.toml", "--strategies", "single,data", "--devices", "2,4", "--set", "batch=100 per device",
                     "--steps", "2", "--json", "c.json", "--out", "c")
        rows = {(row["name"], row["devices"]): row for row in self.json("c.json")["rows"]}
        self.assertEqual(rows["single", 1]["status"], "ok")
        self.assertEqual(rows["data", 4]["status"], "skipped")
        self.assertIn("400 samples, 100 on each of 4 devices: the training set has 256 samples", rows["data", 4]["reason"])
        self.all_refused([
            (["train", "e.toml", "--set", "batch=32 per worker"], ["batch", "32 per worker", '"32 per device"']),
            (["train", "e.toml", "--set", "batch=0 per device"], ["batch", "0 per device", "at least 1"]),
            (["train", "e.toml", "--plan", "data", "--devices", "4", "--set", "batch=100 per device"],
             ["batch", "400 samples, 100 on each of 4 devices", "256 samples"]),
            (["train", "e.toml", *EACH, "--plan", "single", "--set", "micro_batches=20"], ["micro_batches", "16 per device on 1 device"]),
            (["measure-epochs", "e.toml", *EACH, "--batches", "32"], ["batch", "16 per device", "--set batch=128"]),
        ])
