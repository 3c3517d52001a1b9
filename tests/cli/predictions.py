"""Predictions: `simulate`, `compare` with predicted and measured values, and `plan best`."""
import json
import os
import re

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
        out, _ = self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--devices", "2,4", "--strategies", strategies,
                              "--json", "s.json", "--out", "run", "--set", "model.options.depth=4")
        for word in ("predicted", "datasheet", "prices: made up, 2026-01"):
            self.assertIn(word, out)
        result = self.json("s.json")
        self.assertIn("pair", result["simulated"])
        rows = {(row["name"], row["devices"]): row for row in result["rows"]}
        self.assertEqual(len(rows), 9)
        for name, row in rows.items():
            self.assertEqual(row["status"], "ok", name)
            self.assertGreater(row["step_seconds"]["median"], 0)
            # the steps of an epoch, at 3.6 dollars per hour for each node
            nodes = (row["devices"] + 1) // 2
            self.assertAlmostEqual(row["price_per_epoch"], row["epoch_seconds"] * nodes * 0.001, 9)
        # four devices are two nodes, with a slow network between them
        self.assertGreater(rows["data", 4]["step_seconds"]["median"], rows["data", 2]["step_seconds"]["median"])
        trace = self.json("run/trace.json")
        self.assertTrue(any(event["ph"] == "X" for event in trace["traceEvents"]))

    def test_simulate_to_the_target(self):
        flags = ["simulate", "e.toml", "--cluster", "c.toml", "--devices", "2", "--strategies", "data", "--json", "s.json"]
        out, _ = self.trireme(*flags, "--set", "batch=32", "--epochs", "16:3,64:6")
        row = self.json("s.json")["rows"][0]
        epochs = 4.5  # epochs are linear in the logarithm of the batch
        self.assertAlmostEqual(row["to_target"]["epochs"], epochs)
        self.assertAlmostEqual(row["to_target"]["seconds"], epochs * row["epoch_seconds"])
        self.assertAlmostEqual(row["price_to_target"], epochs * row["price_per_epoch"])
        self.assertIn("4.5 (interpolated)", out)
        out, _ = self.trireme(*flags, "--set", "batch=128", "--epochs", "16:3,64:6")
        self.assertIsNone(self.json("s.json")["rows"][0]["to_target"])
        self.assertIn("not known (no batch beyond 64 was tried)", out)
        self.refused(*flags, "--epochs", "some", says=["--epochs", "some"])
        self.refused(*flags, "--epochs", "noise=2000", says=["--epochs", "least=12"])

    def test_workers_that_share_cores_are_named(self):
        cores = len(os.sched_getaffinity(0))
        out, _ = self.trireme("simulate", "e.toml", "--strategies", "data", "--devices", f"1,{2 * cores}", "--set", f"batch={2 * cores}")
        self.assertIn(f"[1] {2 * cores} workers share {cores} core", " ".join(out.split()))
        self.assertEqual(out.count("[1]"), 2, out)  # the row's mark and the note

    def test_simulate_refuses(self):
        self.refused("simulate", "e.toml", "--cluster", "c.toml", "--profile", "p.json", says=["--cluster", "leave one of them out"])
        self.refused("simulate", "e.toml", "--cluster", "none.toml", says=["none.toml"])

    def test_more_devices_than_the_cluster_has(self):
        # refused before the data are opened; there are none with this name
        absent = ["--set", "data={name=\"folder\",path=\"none\"}"]
        says = ["cluster pair (c.toml) has 4", "use at most 4"]
        many = ["e.toml", "--cluster", "c.toml", "--devices", "8", *absent]
        self.write("plan.json", '{"devices": 3, "replicas": 2}')
        cases = [(["simulate", "e.toml", "--cluster", "c.toml", "--devices", "2,8", "--strategies", "data", *absent], ["--devices: 8 devices", *says]),
                 (["simulate", "e.toml", "--cluster", "c.toml", "--strategies", "single,data=2,tensor=4", *absent],
                  ["strategies data=2,tensor=4: 8 devices", *says]),
                 (["simulate", "e.toml", "--cluster", "c.toml", "--strategies", "plan.json", *absent], ["plan.json: 6 devices", *says]),
                 (["simulate", "e.toml", "--cluster", "c.toml", "--set", "devices=[2,16]", *absent], ["devices=[2,16]: 16 devices", *says]),
                 (["plan", "best", *many], says), (["plan", "show", "exact", *many], says),
                 (["plan", "project", *many, "--epochs", "16:3,64:6"], says),
                 (["train", *many, "--plan", "data", "--backend", "virtual"], says),
                 (["train", *many, "--plan", "local-sgd,every=2 steps", "--backend", "virtual"], says)]
        self.all_refused(cases)
        # [update.virtual] gives machines for policies; lists are for this machine
        with open(self.path("e.toml"), "a", encoding="utf-8") as f:
            f.write('[update.virtual]\ncluster = "c.toml"\n')
        policy = ["e.toml", "--strategies", "single,local-sgd", "--devices", "8", *absent]
        self.all_refused([(["compare", *policy], ["cluster pair", "has 4"]), (["simulate", *policy], ["cluster pair", "has 4"]),
                          (["train", "e.toml", "--plan", "local-sgd", "--devices", "8", *absent], ["cluster pair", "has 4"]),
                          (["compare", "e.toml", "--strategies", "data", "--devices", "8", "--set", "device_threads=[1,1]", *absent],
                           ["device_threads", "2 of 8"])])

    def test_compare_shows_predictions_and_keeps_what_it_measured(self):
        out, _ = self.trireme("compare", "e.toml", "--profile", "p.json", "--out", "o", "--set", "price.per_hour=7.2")
        self.assertIn("7.2 USD an hour", out)
        for row in self.json("o/run.json")["rows"]:
            self.assertAlmostEqual(row["price_per_epoch"], row["epoch_seconds"] * 0.002, delta=1e-9)
        self.assertIn("predicted step", out)
        self.assertRegex(out, r"predictions: trial steps took [0-9.]+ \(one device\)(, [0-9.]+ \(data on \d+ devices\))? times as long")
        self.assertIn("predictions: steps took", out)
        rows = self.json("o/run.json")["rows"]
        for row in rows:
            self.assertGreater(row["predicted"]["step_seconds"], 0)
            self.assertEqual(row["predicted"]["basis"], "measured")
        with open(self.path("o/report.html"), encoding="utf-8") as report:
            self.assertIn("Predicted step times are within", report.read())
        before = self.json("p.json")
        self.assertGreater(len(before["layers"]), 3)
        ((name, factors),) = before["step_factors"].items()
        self.assertRegex(name, r"^\S+, \d+ weights, fp32$")
        self.assertGreater(factors["seconds"], 0)
        self.trireme("simulate", "e.toml", "--profile", "p.json", "--json", "s.json")
        self.assertEqual(self.json("p.json")["layers"], before["layers"])  # nothing was measured again
        # The comparison's predictions used these factors, and so do later ones.
        for row, later in zip(rows, self.json("s.json")["rows"]):
            self.assertAlmostEqual(row["predicted"]["step_seconds"], later["step_seconds"]["median"],
                                   delta=0.3 * row["predicted"]["step_seconds"])
        own = ("plan", "best", "e.toml", "--objective", "cost", "--profile", "p.json", "--set", "price.per_hour=7.2",
               "--set", "price.note=a bill")
        self.assertRegex(self.trireme(*own)[1],
                         r"USD an epoch; prices: 7.2 USD an hour for this machine, as the experiment says \(a bill\)")
        before["machine"]["cores"] = 1000
        self.write("other.json", json.dumps(before))
        self.refused("simulate", "e.toml", "--profile", "other.json", says=["other.json", "another machine"])

    def test_the_best_plan(self):
        self.environment["COLUMNS"] = "200"  # the table in one block
        out, err = self.trireme("plan", "best", "e.toml", "--objective", "time", "--cluster", "c.toml", "--devices", "2", "--explain")
        plan = json.loads(out)
        self.assertLessEqual(plan["devices"], 2)
        for word in ("optimal under the step model", "simulated", "by formula", "if links were twice as fast: ",
                     "if devices had half the memory: "):
            self.assertIn(word, err)
        table = [line for line in err.splitlines() if line[:2].strip().isdigit() and line[2:3] == " "]
        self.assertEqual(len({line[2:] for line in table}), len(table), err)  # no line is repeated
        for number in range(2, len(table) + 1):
            self.assertRegex(err, rf"\n{number}: .*(decided|as good|by the formula)")
        for line in err.splitlines():
            self.assertLessEqual(len(line), 260, line)
        self.write("best.json", out)
        self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--devices", "2", "--strategies", "data,tensor,pipeline,best.json",
                     "--json", "s.json")
        seconds = {row["name"]: row["step_seconds"]["median"] for row in self.json("s.json")["rows"]}
        self.assertLessEqual(seconds["best"], min(seconds.values()) * (1 + 1e-9))
        self.trireme("train", "e.toml", "--plan", "best.json", "--out", "o")  # the plan runs

    def test_trial_steps_choose_the_best_plan_of_this_machine(self):
        # On a busy machine measured layers may leave one plan only: then there is nothing to try.
        for attempt in range(4):
            best = ("plan", "best", "e.toml", "--devices", "2", "--profile", f"p{attempt}.json")
            out, err = self.trireme(*best)
            took = re.search(r"trial steps: (.*?) took .* \(predicted .*\), .* took .*; the first is chosen", err)
            if took:
                break
        self.assertTrue(took, err)
        self.write("best.json", out)
        shown, _ = self.trireme("plan", "show", "best.json", "e.toml")
        self.assertIn(took.group(1), shown)
        for words in (("--no-trials",), ("--objective", "memory")):
            self.assertNotIn("trial steps", self.trireme(*best, *words)[1])
        self.assertRegex(self.trireme("train", "e.toml", "--plan", "exact", "--devices", "2", "--profile", best[-1], "--out", "o")[0],
                         r"\ntrial steps: .*; the first is chosen\n")

    def test_a_gap_and_a_time_limit(self):
        plan = ("plan", "best", "e.toml", "--objective", "time", "--cluster", "c.toml", "--devices", "4")
        _, err = self.trireme(*plan)
        self.assertRegex(
            err, r"by the formula(, proven to be the minimum|; (a variant .*: )?every searched plan needs at least .*|"
                 r"; no plan needs less than .*) \(optimal under")
        _, err = self.trireme(*plan, "--gap", "50 %", "--time-limit", "30")
        self.assertRegex(
            err, r"by the formula(, proven to be the minimum|; (a variant .*: )?every searched plan needs at least .*|"
                 r"; no plan needs less than .*: a gap of at most [0-9.]+ %)")
        out, err = self.trireme(*plan, "--time-limit", "1 us")  # named plans are rated before the search
        self.assertRegex(err, r"by the formula; no plan needs less than .* \(at most .*: the time limit ended the search\)")
        self.assertEqual(json.loads(out)["name"], "exact")
        for arguments, says in ((("--gap", "1"), ["--gap", "percent"]), (("--gap", "-1%"), ["--gap"]), (("--gap", "100%"), ["--gap"]),
                                (("--time-limit", "soon"), ["--time-limit", "soon"]),
                                (("--time-limit", "0"), ["--time-limit", "more than 0"])):
            self.refused(*plan, *arguments, says=says)
        self.refused("plan", "show", "data", "e.toml", "--gap", "1%", says=["--gap", "trireme plan show --help"])

    def test_money(self):
        plan = ("plan", "best", "e.toml", "--objective", "cost", "--devices", "4", "--cluster")
        out, err = self.trireme(*plan, "c.toml", "--explain")
        self.assertRegex(err, r"(^|\n)0\.[0-9]+ USD a step by the formula")
        amounts = re.search(r"simulated: ([0-9.]+) USD a step, ([0-9.]+) USD an epoch; prices: made up, 2026-01", err)
        self.assertTrue(amounts, err)
        self.assertAlmostEqual(float(amounts[2]) / float(amounts[1]) / (256 / 32), 1, delta=0.02)
        self.assertRegex(err, r"\n2: .*(decided|by the formula)")
        self.assertLessEqual(json.loads(out)["devices"], 2)
        self.write("free.toml", CLUSTER.replace("MEMORY", "8 GiB").replace("price_per_hour = 3.6\n", ""))
        self.refused(*plan, "free.toml", says=["--objective cost", "not known", "price_per_hour", "price.per_hour"])
        self.refused("plan", "best", "e.toml", "--objective", "cost",
                     says=["--objective cost", "no price", "--set price.per_hour", "--cluster"])

    def test_devices_in_another_order_than_the_files(self):
        node = re.search(r"\[\[node\]\].*?3\.6\n", CLUSTER, re.S)[0].replace("count = 2\n", "")
        head, tail = CLUSTER.replace("MEMORY", "8 GiB").replace("count = 2\n", "").split(node)
        slow = head[head.index("[device.toy]"):].replace("device.toy", "device.slow").replace("1 TFLOP/s", "0.05 TFLOP/s")
        slow = slow.replace("100 GB/s", "5 GB/s")
        self.write("quick.toml", head + node + tail)
        self.write("mixed.toml", head + slow + node.replace('"toy"', '"slow"') + node + tail)
        flags = ("--objective", "time", "--devices", "2", "--explain")
        quick, _ = self.trireme("plan", "best", "e.toml", *flags, "--cluster", "quick.toml")
        mixed, err = self.trireme("plan", "best", "e.toml", *flags, "--cluster", "mixed.toml")
        self.assertIn("in one of 2 orders", err)
        plan = json.loads(mixed)
        self.assertTrue(set(plan["cluster_devices"]) <= {2, 3}, plan["cluster_devices"])  # the fast devices are the last
        self.write("quick.json", quick)
        self.write("mixed.json", mixed)
        seconds = []
        for name in ("quick", "mixed"):
            self.trireme("simulate", "e.toml", "--cluster", f"{name}.toml", "--devices", "2", "--strategies", f"data,{name}.json,exact",
                         "--json", "s.json")
            rows = {row["name"]: row for row in self.json("s.json")["rows"]}
            self.assertEqual(rows["exact"]["step_seconds"], rows[name]["step_seconds"])
            seconds.append([rows[name]["step_seconds"]["median"], rows["data"]["step_seconds"]["median"]])
        self.assertAlmostEqual(seconds[1][0] / seconds[0][0], 1, 9)
        self.assertGreater(seconds[1][1], 2 * seconds[0][1])  # named plans take the first devices
        self.refused("simulate", "e.toml", "--cluster", "quick.toml", "--strategies", "mixed.json",
                     says=["device ", "its devices are 0 to 1"])
        # the last node costs half
        self.write("cheap.toml", head + node + node.replace("3.6", "1.8") + tail)
        out, _ = self.trireme("plan", "best", "e.toml", "--objective", "cost", "--devices", "4", "--cluster", "cheap.toml")
        self.assertTrue(set(json.loads(out)["cluster_devices"]) <= {2, 3}, out[:300])
        self.trireme("train", "e.toml", "--plan", "mixed.json", "--out", "o")  # the workers of one machine are equal

    def test_fewer_devices_than_there_are(self):
        self.write("slow.toml", CLUSTER.replace("MEMORY", "8 GiB").replace("10 GB/s", "1 MB/s").replace("10 Gbit/s", "1 Mbit/s"))
        out, err = self.trireme("plan", "best", "e.toml", "--objective", "time", "--cluster", "slow.toml", "--devices", "4")
        self.assertEqual(json.loads(out)["devices"], 1)
        self.assertIn("uses 1 of 4 devices", err)

    def test_strategies_that_planners_find(self):
        strategies = "single,data,tensor,hybrid-static,asa,exact"
        out, _ = self.trireme("simulate", "e.toml", "--cluster", "c.toml", "--devices", "2,4", "--strategies", strategies,
                              "--json", "s.json", "--set", "model.options.depth=4", "--out", "run")
        with open(self.path("run", "report.html"), encoding="utf-8") as report:
            for text, times in ((out, 1), (self.trireme("report", "run", data=False)[0], 1),
                                (report.read(), 2)):  # also in the report's data
                self.assertEqual(text.count("asa: a reconstruction of a published strategy"), times)
        self.assertEqual(len(self.json("s.json")["notes"]), 1)
        rows = self.json("s.json")["rows"]
        self.assertEqual([row["name"] for row in rows], ["single"] + [n for n in strategies.split(",")[1:] for _ in (2, 4)])
        for row in rows:
            self.assertEqual(row["status"], "ok", row["name"])
            self.assertGreater(row["predicted"]["peak_memory_bytes"], 0)
            self.assertTrue(row["blocks"][0]["strategy"], row["name"])
        seconds = [row["step_seconds"]["median"] for row in rows]
        self.assertLessEqual(seconds[9], min(seconds[1::2] + seconds[0:1]) * (1 + 1e-9))    # on 2 devices
        self.assertLessEqual(seconds[10], min(seconds[2::2] + seconds[0:1]) * (1 + 1e-9))   # on 4
        self.trireme("simulate", "e.toml", "--cluster", "small.toml", "--devices", "2", "--strategies", "single,asa", "--json", "s.json",
                     "--set", "model.options.hidden=4096")
        single, asa = self.json("s.json")["rows"]
        self.assertEqual(single["status"], "does not fit")
        self.assertIn("it has 300 KiB", single["reason"])
        self.assertEqual(asa["status"], "skipped")
        self.assertIn("fits", asa["reason"])

    def test_operators_on_devices(self):
        inception = ["--set", 'model={ name = "inception" }', "--set", "batch=64"]
        self.write("fast.toml", CLUSTER.replace("MEMORY", "8 GiB").replace("10 GB/s", "1000 GB/s"))
        fast = ["--cluster", "fast.toml"]
        _, err = self.trireme("plan", "show", "placement", "e.toml", *inception, *fast, "--devices", "2", "--json", "p.json")
        self.assertRegex(err, "note: placement: .* by the search, no placement takes less than .*; one device: ")
        plan = self.json("p.json")
        self.assertEqual((plan["name"], len(plan["stages"]), plan["devices"]), ("placement", 2, 2))
        self.trireme("simulate", "e.toml", *inception, *fast, "--devices", "2,4", "--strategies", "single,branches,placement", "--json", "s.json")
        rows = {(row["name"], row["devices"]): row["step_seconds"]["median"] for row in self.json("s.json")["rows"]}
        self.assertLess(rows["placement", 2], 0.95 * rows["single", 1])
        self.assertLessEqual(rows["placement", 2], rows["branches", 2] * 1.001)
        self.assertLess(rows["placement", 4], rows["placement", 2])
        self.trireme("plan", "show", "placement", "e.toml", *inception, *fast, "--devices", "4", "--json", "q.json")
        for file in ("p.json", "q.json"):
            out, _ = self.trireme("verify", "e.toml", *inception, "--plan", file, "--set", "batch_norm=global")
            self.assertIn("equal (tolerance", out)
        self.refused("plan", "show", "placement", "e.toml", *fast, "--devices", "2", says=["strategy placement", "no placement", "another strategy"])

    def test_plans_that_planners_find_run(self):
        out, _ = self.trireme("compare", "e.toml", "--strategies", "single,asa,exact", "--profile", "p.json", "--out", "o")
        took = re.search(r"exact.*: trial steps: (.*?) took ", out)
        if took:  # there were several plans to try
            self.assertIn(took.group(1), self.trireme("plan", "show", "o/planned/exact-x2.json", "e.toml")[0])
        rows = {row["name"]: row for row in self.json("o/run.json")["rows"]}
        self.assertEqual(list(rows), ["single", "asa", "exact"])
        for name, row in rows.items():
            self.assertEqual((row["status"], row["strategy"]), ("ok", name))
            self.assertGreater(row["predicted"]["step_seconds"], 0)
        self.assertEqual(self.json("o/planned/asa-x2.json")["name"], "asa")
        self.trireme("train", "e.toml", "--plan", "hybrid-static", "--devices", "2", "--profile", "p.json", "--out", "t")
        self.assertEqual(self.json("t/plan.json")["name"], "hybrid-static")
        out, err = self.trireme("plan", "show", "asa", "e.toml", "--json", "-", "--devices", "4", "--cluster", "c.toml")
        self.assertEqual(json.loads(out)["devices"], 4)
        self.assertIn("asa: a reconstruction", err)
        self.write("asa.json", out)
        self.assertIn("asa: a reconstruction", self.trireme("plan", "show", "asa.json", "e.toml")[0])
        help_text = self.trireme("simulate", "--help", data=False)[0] + self.trireme("compare", "--help", data=False)[0]
        self.assertIn("asa (a reconstruction)", " ".join(help_text.split()))  # lines are broken anywhere
        self.refused("verify", "e.toml", "--plan", "exact", says=["exact", "found by a planner", "trireme plan"])
        self.refused("simulate", "e.toml", "--strategies", "exakt", says=["exakt", 'did you mean "exact"'])

    def test_a_plan_to_edit_for_a_described_machine(self):
        unequal = CLUSTER.replace("MEMORY", "8 GiB").replace('[[node]]\ncount = 2', '[[node]]\ncount = 1') + """
[device.slow]
flops = { fp32 = "0.25 TFLOP/s" }
greatest_efficiency = 0.5
half_work = "1 MFLOP"
memory = "8 GiB"
memory_bandwidth = "25 GB/s"
launch = "40 us"
source = "made up for a test"

[[node]]
device = "slow"
devices = 2
link = { bandwidth = "10 GB/s", latency = "5 us" }
"""
        self.write("u.toml", unequal)
        for strategy in ("1f1b,micro_batches=3", "data", "data=2,pipeline=2,micro_batches=4", "single"):
            here = ["e.toml", "--cluster", "u.toml", "--devices", "4", "--set", "model.options.depth=6"]
            out, _ = self.trireme("plan", "show", strategy, *here, "--json", "-")
            self.assertEqual(json.loads(out)["devices"], 1 if strategy == "single" else 4)
            self.write("mine.json", out)
            self.trireme("simulate", *here, "--strategies", strategy + ",mine.json", "--json", "s.json")
            named, edited = self.json("s.json")["rows"]
            self.assertEqual(named["step_seconds"]["median"], edited["step_seconds"]["median"], strategy)
        self.assertIn("data 2 x tensor 2", self.trireme("plan", "show", "data=2,tensor=2", "e.toml", "--cluster", "c.toml")[0])
        # a device that is four times as slow gets fewer layers
        plan = json.loads(self.trireme("plan", "show", "1f1b", *here, "--json", "-")[0])
        stages = [sum(layer["stage"] == s for layer in plan["layers"]) for s in range(4)]
        self.assertGreater(min(stages[:2]), max(stages[2:]))
        self.refused("plan", "show", "mine.json", "e.toml", "--cluster", "u.toml",
                     says=["--cluster: mine.json: a plan file is complete", "trireme simulate EXPERIMENT --strategies mine.json"])
        self.refused("plan", "show", "data", "--model", "mlp", "--cluster", "u.toml", says=["--cluster", "name the experiment too"], data=False)

    def test_a_large_model_is_planned_without_measuring_it(self):
        gpt = ["--set", 'data={name="text",sequence=2048,shape={train=5000}}', "--set", "batch=1536", "--set", "target=1", "--set",
               'model={name="gpt2",options={layers=48,width=8192,heads=64,positions=2048,vocabulary=51200}}']
        out, err = self.trireme("plan", "show", "data=8,tensor=8,pipeline=8,schedule=1f1b,micro_batches=96,recompute=all", "e.toml", *gpt,
                                "--json", "gpt.json")
        self.assertIn("note: stages are balanced by their layers' FLOPs: measuring them here", err)
        self.assertEqual(self.json("gpt.json")["devices"], 512)
        self.assertIn("448-511", out)

    def test_own_times(self):
        here = ["e.toml", "--cluster", "c.toml", "--devices", "2", "--json", "s.json"]
        layers = self.trireme("plan", "show", "single", "e.toml", "--json", "-")[0]
        names = [layer["layer"] for layer in json.loads(layers)["layers"]]
        def seconds(strategy, text):
            self.write("own.csv", text)
            out, _ = self.trireme("simulate", *here, "--strategies", strategy, "--times", "own.csv")
            self.assertIn("own.csv", out)
            row, = self.json("s.json")["rows"]
            self.assertEqual(row["predicted"]["basis"], "own times")
            return row["step_seconds"]["median"]
        def table(forward, backward):
            return "layer,samples,forward,backward\n" + "".join(f"{name},32,{forward},{backward}\n" for name in names)
        # 32 samples a step: each layer's time once, except that the first, which only flattens images, has no backward
        grown = seconds("single", table("10 ms", 0.02)) - seconds("single", table(0, 0))
        self.assertAlmostEqual(grown, 0.03 * len(names) - 0.02, delta=1e-9)
        stages = "stage,samples,forward,backward\n0,4,1,2\n1,4,1,2\n"
        grown = seconds("1f1b,micro_batches=8", stages) - seconds("1f1b,micro_batches=8", stages.replace("1,2", "0,0"))
        self.assertAlmostEqual(grown, (8 + 2 - 1) * 3, delta=0.01)
        _, err = self.trireme("plan", "best", "e.toml", "--cluster", "c.toml", "--times", "own.csv", code=2)
        self.assertIn("a planner chooses the stages itself", err)
        self.write("own.csv", table("10 ms", "20 ms"))
        _, err = self.trireme("plan", "best", "e.toml", "--cluster", "c.toml", "--devices", "2", "--times", "own.csv", "--explain")
        self.assertIn("own times of layers from own.csv", err)
        self.write("own.csv", table("10 ms", "20 ms") + "layer9,32,1,1\n")
        self.refused("simulate", *here, "--times", "own.csv", says=["own.csv:", '"layer9"', "no layer or block of this name"])

    def test_numbers_of_micro_batches_to_search(self):
        here = ["e.toml", "--cluster", "c.toml", "--devices", "2", "--set", "batch=24", "--set", "model.options.depth=6"]
        for m in (3, 6):
            out, err = self.trireme("plan", "best", *here, "--micro-batches", str(m), "--explain")
            self.assertEqual(json.loads(out)["micro_batches"], m)
            self.assertIn(f"; micro-batches {m}; ", err)
        _, err = self.trireme("plan", "best", *here, "--explain")
        self.assertIn("; micro-batches 1, 2, 3, 4, 6, 8, 12, 16; ", err)
        self.refused("plan", "best", *here, "--micro-batches", "48", says=["48 micro-batches", "the batch has 24 samples"])

    def test_more_memory_never_gives_a_slower_plan(self):
        def kib(size):
            number, unit = size.split()
            return float(number) * {"KiB": 1, "MiB": 1024}[unit]
        here = ["e.toml", "--devices", "1", "--set", "model.options.hidden=64"]
        _, err = self.trireme("plan", "best", *here, "--objective", "memory", "--cluster", "c.toml")
        least = kib(re.search(r"needs (.*) on the fullest device", err).group(1))
        seconds = []
        for factor in (1.02, 1.2, 1.5, 2, 3):
            self.write("m.toml", CLUSTER.replace("MEMORY", f"{least * factor:.0f} KiB"))
            out, err = self.trireme("plan", "best", *here, "--cluster", "m.toml")
            needs, has = re.search(r"needs (.*) on the fullest device; the smallest has (.*)", err).groups()
            self.assertLessEqual(kib(needs), kib(has))
            self.write("best.json", out)
            self.trireme("simulate", *here, "--cluster", "m.toml", "--strategies", "best.json", "--json", "s.json")
            row = self.json("s.json")["rows"][0]
            self.assertEqual(row["status"], "ok", factor)
            seconds.append(row["step_seconds"]["median"])
        self.assertEqual(seconds, sorted(seconds, reverse=True))

    def test_an_allocator_takes_a_share_of_what_comes_and_goes(self):
        def described(memory):
            self.write("a.toml", CLUSTER.replace('"MEMORY"', f'"{memory} B"\nreserved = "1 KiB"\nallocator_overhead = 0.25'))
            self.trireme("simulate", "e.toml", "--cluster", "a.toml", "--devices", "1", "--strategies", "single", "--json", "s.json")
            return self.json("s.json")["rows"][0]
        row = described(1 << 30)
        memory, taken = row["memory_bytes"][0], row["predicted"]["device_memory"]
        changing = memory["activations"] + memory["buffers"]
        self.assertGreater(changing, 0)
        self.assertEqual(memory["peak"], changing + memory["weights"] + memory["gradients"] + memory["optimizer"])
        for name, times in (("low_bytes", 0), ("expected_bytes", 1), ("high_bytes", 2)):
            self.assertEqual(taken[name], 1024 + memory["peak"] + int(times * 0.25 * changing), name)
        self.assertEqual(described(taken["expected_bytes"])["status"], "ok")
        short = described(taken["expected_bytes"] - 1)
        self.assertEqual(short["status"], "does not fit")
        self.assertIn("for the allocator, 1.00 KiB for driver and libraries", short["reason"])
        fits, _ = self.trireme("plan", "best", "e.toml", "--cluster", "a.toml", "--devices", "1")
        self.write("best.json", fits)
        self.trireme("simulate", "e.toml", "--cluster", "a.toml", "--strategies", "best.json", "--json", "s.json")
        self.assertEqual(self.json("s.json")["rows"][0]["status"], "ok")

    def test_a_plan_of_least_memory_and_none_that_fits(self):
        def fullest(objective):
            _, err = self.trireme("plan", "best", "e.toml", "--objective", objective, "--cluster", "c.toml", "--devices", "4", "--explain")
            return err
        self.assertRegex(fullest("memory"), r"KiB by the formula.*\(at most .* from the least memory")
        self.assertNotIn("if links", fullest("memory"))
        self.refused("plan", "best", "e.toml", "--objective", "time", "--cluster", "small.toml", "--devices", "2",
                     "--set", "model.options.hidden=4096",
                     says=["no plan fits", "lacks", "weights", "what would fit: ", "times the memory"])
        self.refused("plan", "best", "e.toml", "--objective", "speed", says=["--objective"])
