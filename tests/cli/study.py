"""Studies: what is trained, what is kept from earlier, and what the report shows."""
import fcntl
import os

import support
from support import CliTest, text_of

RUNS = """
title = "Small"
[[runs]]
name = "fixed"
experiment = "e.toml"
set = ["length=4 steps"]
"""
STUDY = RUNS + """
[[runs]]
name = "tuned"
experiment = "e.toml"
set = ["length=4 steps", "strategies=data"]
tune = { key = "optimizer.learning_rate", values = ["0.001", "0.05", "1e9"], set = ["length=2 steps"] }
[[runs]]
name = "absent"
experiment = "absent.toml"
[[parts]]
title = "Times"
table = ["time", "speedup", "result"]
charts = [{ y = "speedup" }, { kind = "progress", y = "loss" }]
published = [{ strategy = "data", quantity = "speedup", value = 1.9 }]
[[parts]]
title = "Advice"
advice = true
"""


class Study(CliTest):
    def setUp(self):
        super().setUp()
        self.write("s.study.toml", STUDY)
        self.write("absent.toml", 'name = "absent"\nmodel = "mlp"\ndata = { name = "cifar10" }\n')

    def table(self, run):
        parts = self.json("o", "study.json")["parts"]
        shown = next(run_of_part for run_of_part in parts[0]["runs"] if run_of_part["run"] == run)
        return {column["title"]: column["cells"] for column in shown["table"]}

    def run_of_row(self, folder="data-x2"):
        return self.json("o", "fixed", folder, "run.json")

    def test_a_study_is_trained_once(self):
        out, _ = self.trireme("study", "s.study.toml", "--dry-run", code=1)
        self.assertRegex(out, r"3 rows in 3 runs, and 3 trials; 0 from earlier, 6 to train, in about ")
        self.assertFalse(os.path.exists(self.path("studies")), "a dry run leaves nothing")

        out, _ = self.trireme("study", "s.study.toml", "--out", "o", code=1)
        self.assertIn("absent: could not be had: CIFAR-10", out)
        self.assertEqual(self.table("fixed")["strategy"], ["single", "data"])
        self.assertEqual(self.table("fixed")["speedup, published"], ["–", "1.90"])
        self.assertEqual(self.table("tuned")["learning_rate"], ["0.05"], "0.001 hardly learns in two steps, and 1e9 diverges")
        page = text_of(self.path("o", "report.html"))
        for words in ("Small", "could not be had", "fixed/report.html", "speedup, published"):
            self.assertIn(words, page)
        for file in ("fixed/report.html", "fixed/run.json", "fixed/data-x2/metrics.jsonl", "tuned/trials/data-x2-3/run.json"):
            self.assertTrue(os.path.exists(self.path("o", file)), file)

        before = self.run_of_row()
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", code=1)
        self.assertIn("6 from earlier, 0 to train", out)
        self.assertEqual(self.run_of_row(), before)

        self.write("s.study.toml", STUDY.replace('set = ["length=4 steps"]', 'set = ["length=5 steps"]'))
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", code=1)
        self.assertIn("4 from earlier, 2 to train", out)
        self.assertEqual(self.run_of_row("data-x2.earlier-1"), before, "nothing is removed")
        self.assertEqual(self.run_of_row()["rows"][0]["evaluations"][-1]["step"], 5)

    def test_rows_of_a_changed_experiment_are_trained_again(self):
        self.write("s.study.toml", RUNS + '[[parts]]\ntitle = "x"\nadvice = true\n')
        self.trireme("study", "s.study.toml", "--out", "o")
        experiment = text_of(self.path("e.toml"))
        self.assertIn("options.hidden = 32", experiment)
        self.write("e.toml", experiment.replace("options.hidden = 32", "options.hidden = 16"))
        out, _ = self.trireme("study", "./s.study.toml", "--out", "o")
        self.assertIn("0 from earlier, 2 to train", out)

    def test_rows_whose_experiment_names_a_changed_file_are_trained_again(self):
        cluster = text_of(os.path.join(support.EXAMPLES, "clusters", "64xcpu-1g.cluster.toml"))
        self.write("c.cluster.toml", cluster)
        self.trireme("train", "e.toml", "--plan", "single", "--devices", "1", "--steps", "1", "--out", "single")
        plan = text_of(self.path("single", "plan.json"))
        self.write("p.json", plan)
        runs = RUNS.replace('set = ["length=4 steps"]', 'set = ["length=2 steps", "strategies=local-sgd", '
                            '"update.virtual.cluster=c.cluster.toml", "update.plan=p.json"]')
        self.write("s.study.toml", runs + '[[parts]]\ntitle = "x"\nadvice = true\n')
        for earlier in (0, 1):
            out, _ = self.trireme("study", "s.study.toml", "--out", "o")
            self.assertIn(f"{earlier} from earlier, {1 - earlier} to train", out)
        for file, text in (("p.json", plan), ("c.cluster.toml", cluster)):
            self.write(file, text + "\n")
            out, _ = self.trireme("study", "s.study.toml", "--out", "o")
            self.assertIn("0 from earlier, 1 to train", out, file)

    def test_rows_with_generated_data_are_trained_again_once_there_are_real_ones(self):
        self.write("s.study.toml", RUNS + '[[parts]]\ntitle = "x"\nadvice = true\n')
        self.trireme("study", "s.study.toml", "--out", "o", data=False)
        self.assertTrue(self.run_of_row()["generated_data"])
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", data=False)
        self.assertIn("2 from earlier, 0 to train", out)
        self.environment["TRIREME_DATA"] = self.data
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", data=False)
        self.assertIn("0 from earlier, 2 to train", out)
        self.assertFalse(self.run_of_row()["generated_data"])

    def test_an_elastic_experiment_has_no_rows(self):
        self.write("s.study.toml", RUNS.replace('"length=4 steps"', '"elastic=true"') + '[[parts]]\ntitle = "x"\nadvice = true\n')
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", code=1)
        self.assertIn("fixed: could not be had: setting elastic=true: does not work where plans are compared", out)

    def test_an_interrupted_row_is_trained_again(self):
        self.write("s.study.toml", RUNS + '[[parts]]\ntitle = "x"\nadvice = true\n')
        self.trireme("study", "s.study.toml", "--out", "o")
        run = self.path("o", "fixed", "data-x2", "run.json")
        self.write(run, text_of(run).replace('"finished"', '"running"'))
        out, _ = self.trireme("study", "s.study.toml", "--out", "o")
        self.assertIn("1 from earlier, 1 to train", out)
        self.assertTrue(os.path.isdir(self.path("o", "fixed", "data-x2.earlier-1")))

    def test_rows_with_several_seeds(self):
        runs = RUNS.replace('set = ["length=4 steps"]', 'set = ["length=4 steps"]\nseeds = [3, 1]')
        self.write("s.study.toml", runs + '[[parts]]\ntitle = "x"\ntable = ["loss", "devices"]\n')
        out, _ = self.trireme("study", "s.study.toml", "--out", "o")
        self.assertIn("0 from earlier, 4 to train", out)
        rows = [self.run_of_row(folder)["rows"][0] for folder in ("data-x2", "data-x2-seed-1")]
        losses = [row["evaluations"][-1]["loss"] for row in rows]
        self.assertNotEqual(*losses)
        mean, spread = map(float, self.table("fixed")["loss"][1].split(" ± "))
        self.assertAlmostEqual(mean, sum(losses) / 2, 2)
        self.assertAlmostEqual(spread, abs(losses[0] - losses[1]) / 2**0.5, 2)
        self.assertEqual(self.table("fixed")["devices"], ["1", "2"])
        self.assertEqual(self.json("o", "fixed", "run.json")["seed"], 3)

        out, _ = self.trireme("study", "s.study.toml", "--out", "o")
        self.assertIn("4 from earlier, 0 to train", out)
        out, _ = self.trireme("study", "s.study.toml", "--quick", "--dry-run", "--out", "o")
        self.assertIn("2 rows in 1 run; 2 from earlier, 0 to train", out)

    def test_rows_with_a_batch_per_worker(self):
        own = RUNS.replace('set = ["length=4 steps"]', 'batch_per_worker = 6\nset = ["length=4 steps", "devices=[1, 4]", '
                           '"strategies=[\'data\', \'tensor\', \'hybrid:tensor\']"]')
        self.write("s.study.toml", own + '[[parts]]\ntitle = "x"\ntable = ["batch", "time per step"]\nadvice = true\n')
        self.trireme("study", "s.study.toml", "--out", "o")
        shown = self.table("fixed")
        batches = dict(zip(zip(shown["strategy"], shown["devices"]), shown["batch"]))
        self.assertEqual({key: batches[key] for key in (("data", "1"), ("data", "4"), ("tensor", "4"), ("hybrid:tensor", "4"))},
                         {("data", "1"): "6", ("data", "4"): "24", ("tensor", "4"): "6", ("hybrid:tensor", "4"): "12"})
        curve = self.run_of_row("data-x4")["rows"][0]["curve"]
        self.assertEqual([point["samples"] for point in curve], [24, 48, 72, 96])
        self.write("s.study.toml", own.replace("hybrid:tensor", "local-sgd") + '[[parts]]\ntitle = "x"\nadvice = true\n')
        out, _ = self.trireme("study", "s.study.toml", "--out", "p", code=1)
        self.assertIn("batch_per_worker", out)

    def test_runs_with_another_metric_and_another_run_as_base(self):
        runs = RUNS.replace('name = "fixed"', 'name = "fixed"\nmetric = "top5_accuracy"')
        more = runs.split("[[runs]]")[1].replace('"fixed"', '"longer"\nbase = "fixed"').replace("4 steps", "8 steps")
        self.write("s.study.toml", f"{runs}[[runs]]{more}"
                   '[[parts]]\ntitle = "x"\ntogether = true\ndevices = [2]\ntable = ["result", "time", "time saved", "lost"]\n'
                   'charts = [{ kind = "points", x = "time saved", y = "lost" }]\n')
        self.trireme("study", "s.study.toml", "--out", "o")
        rows = {run: self.json("o", run, "run.json")["rows"] for run in ("fixed", "longer")}
        self.assertEqual([row["devices"] for row in rows["longer"]], [1, 2])
        shown = self.table("")
        self.assertEqual((shown["run"], shown["strategy"]), (["fixed", "longer"], ["data", "data"]))
        results = [{metric["name"]: metric["value"] for metric in row["evaluations"][-1]["metrics"]}
                   for row in (rows["fixed"][0], rows["fixed"][1], rows["longer"][1])]
        self.assertEqual(shown["top-5 accuracy"], [f"{100 * result['top5_accuracy']:.1f}" for result in results[1:]])
        for lost, result in zip(shown["lost"], results[1:], strict=True):
            self.assertAlmostEqual(float(lost), 100 * (results[0]["top5_accuracy"] - result["top5_accuracy"]), delta=0.06)
        self.assertIn("chart-0-0-0", text_of(self.path("o", "report.html")))

        self.write("s.study.toml", RUNS + 'metric = "rmse"\n[[parts]]\ntitle = "x"\nadvice = true\n')
        out, _ = self.trireme("study", "s.study.toml", "--out", "p", code=1)
        self.assertIn('could not be had: metric: "rmse": is not a metric of this task; known are: accuracy, top5_accuracy', out)

        self.write("s.study.toml", RUNS + 'metric = "acuracy"\n[[parts]]\ntitle = "x"\nadvice = true\n')
        out, _ = self.trireme("study", "s.study.toml", "--out", "q", code=1)
        self.assertIn('did you mean "accuracy"?', out)

    def test_a_report_that_cannot_be_written_does_not_end_the_training(self):
        self.write("s.study.toml", RUNS + '[[parts]]\ntitle = "x"\nadvice = true\n')
        os.makedirs(self.path("o", "report.html", "in-the-way"))
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", code=1)
        self.assertRegex(out, "report.html.*cannot")
        self.assertEqual(len(self.json("o", "fixed", "run.json")["rows"]), 2)
        os.removedirs(self.path("o", "report.html", "in-the-way"))
        out, _ = self.trireme("study", "s.study.toml", "--out", "o")
        self.assertIn("2 from earlier, 0 to train", out)
        self.assertTrue(os.path.isfile(self.path("o", "report.html")))

    def test_a_run_whose_key_is_wrong_is_listed(self):
        self.write("s.study.toml", STUDY.replace("optimizer.learning_rate", "optimizer.learning_rat"))
        out, _ = self.trireme("study", "s.study.toml", "--out", "o", code=1)
        self.assertIn('tuned: tune: setting optimizer.learning_rat=0.001: unknown key', out)
        self.assertNotIn("--set optimizer", out)
        self.assertRegex(out, r"Small: 2 rows in 3 runs; 0 from earlier, 2 to train.*; 2 runs cannot be trained")
        self.assertEqual(self.table("fixed")["strategy"], ["single", "data"])

    def test_two_studies_do_not_share_a_folder(self):
        self.write("s.study.toml", RUNS + '[[parts]]\ntitle = "x"\nadvice = true\n')
        os.mkdir(self.path("o"))
        with open(self.path("o", ".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused("study", "s.study.toml", "--out", "o", says=["o: cannot be used", "another study is working in it", "--out"])
        self.trireme("study", "s.study.toml", "--out", "o")

    def test_wrong_use(self):
        self.write("bad.study.toml", "title = 3\n")
        self.all_refused(((["study", "epoch-averagin"], ["epoch-averagin", "did you mean epoch-averaging?"]),
                          (["study", "bad.study.toml"], ["bad.study.toml:1", "title"]),
                          (["study", "s.study.toml", "--quick", "--full"], ["--quick", "--full"])), data=False)
        out, _ = self.trireme("study", data=False)
        self.assertIn("epoch-averaging", out)
