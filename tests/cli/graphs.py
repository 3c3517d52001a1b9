"""Graph files planned in published cost models: `trireme plan graph`."""
import json

from support import CliTest

LAYER = "{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={}, parameter_size={}\n"
# an input, then layers of 8, 10, 12 and 10 ms; the last one has all weights
PROFILE = LAYER.format("in", "Input0", 0, 0, 0, 0) + "".join(
    LAYER.format(f"n{i}", "Linear", (2, 4, 6, 4)[i], 6, 1000, 4e6 if i == 3 else 0) for i in range(4)) + "".join(
    f"\t{a} -- {b}\n" for a, b in (("in", "n0"), ("n0", "n1"), ("n1", "n2"), ("n2", "n3")))

OPERATORS = {
    "maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 0,
    "nodes": [{"id": i, "supportedOnFpga": 1, "cpuLatency": 30, "fpgaLatency": 3, "isBackwardNode": 0, "size": 60} for i in (1, 2, 3)],
    "edges": [{"sourceId": 1, "destId": 2, "cost": 1}, {"sourceId": 2, "destId": 3, "cost": 1}]}


class PlanGraph(CliTest):
    def setUp(self):
        super().setUp()
        self.write("p.txt", PROFILE)
        self.write("o.json", json.dumps(OPERATORS))
        self.write("fits.json", json.dumps(OPERATORS | {"maxSizePerFPGA": 1000, "maxCPUs": 1}))

    def plan(self, *arguments):
        return json.loads(self.trireme("plan", "graph", *arguments, "--json", "-", data=False)[0])

    def test_pipedream(self):
        plan = self.plan("p.txt", "--cost", "pipedream", "--devices", "4", "--bandwidth", "1 GB/s")
        # three replicas, which have no weights to exchange, then the layer with the weights
        self.assertEqual([(s["replicas"], s["nodes"]) for s in plan["stages"]], [(3, ["in", "n0", "n1", "n2"]), (1, ["n3"])])
        self.assertAlmostEqual(plan["objective"], 0.010)
        self.assertAlmostEqual(plan["lower_bound"], 0.010)
        self.assertAlmostEqual(plan["stages"][0]["seconds"], 0.030)
        self.assertEqual((plan["gap"], plan["status"]), (0, "optimal"))
        self.assertGreater(plan["seconds"], 0)
        straight = self.plan("p.txt", "--devices", "2", "--bandwidth", "1 GB/s", "--straight")
        self.assertAlmostEqual(straight["objective"], 0.022)
        out, _ = self.trireme("plan", "graph", "p.txt", "--devices", "4", "--bandwidth", "8 Gbit/s", "--json", "plan.json", data=False)
        self.assertIn("optimal", out)
        self.assertEqual(self.json("plan.json")["stages"], plan["stages"])

    def test_placements(self):
        plan = self.plan("fits.json", "--cost", "max-load")
        self.assertAlmostEqual(plan["objective"], 7)  # two operators and one transfer
        self.assertEqual(sorted(v for s in plan["stages"] for v in s["nodes"]), [1, 2, 3])
        self.assertAlmostEqual(self.plan("fits.json", "--cost", "max-load", "--devices", "1", "--memory", "200 B")["objective"], 9)
        self.assertAlmostEqual(self.plan("fits.json", "--cost", "latency", "--time-limit", "20 s")["objective"], 9)
        self.assertAlmostEqual(self.plan("p.txt", "--cost", "max-load", "--devices", "4", "--bandwidth", "1 GB/s")["lower_bound"], 0.012, 4)

    def test_a_file_cut_between_lines_is_suspected(self):
        self.write("cut.txt", PROFILE[:PROFILE.rindex("\t")])
        _, err = self.trireme("plan", "graph", "cut.txt", "--devices", "2", "--bandwidth", "1 GB/s", data=False)
        self.assertIn("cut.txt: 1 of 5 layers have no edge, for example n3", err)

    def test_a_search_ended_by_its_limit_says_so(self):
        # 14 operators in parallel: 16,384 order ideals
        wide = OPERATORS | {"maxSizePerFPGA": 1e9, "maxFPGAs": 5, "edges": [],
                            "nodes": [OPERATORS["nodes"][0] | {"id": i, "fpgaLatency": 3 + i % 5 / 7} for i in range(14)]}
        self.write("wide.json", json.dumps(wide))
        plan = self.plan("wide.json", "--cost", "max-load", "--time-limit", "1 ms")
        self.assertEqual(plan["status"], "feasible")
        self.assertGreater(plan["gap"], 0)
        self.assertLess(plan["lower_bound"], plan["objective"])
        self.assertIn("time limit", plan["proof"])

    def test_nonsense(self):
        self.write("cycle.txt", PROFILE + "\tn3 -- n1\n")
        self.write("text.txt", "once upon a time\n")
        self.write("broken.json", "{\"maxFPGAs\": ")
        self.write("cut.txt", PROFILE[:PROFILE.index("parameter_size", 300) + 10])
        self.write("cut.json", json.dumps(OPERATORS)[:-40])
        self.write("empty.txt", "")
        self.write("back.json", json.dumps(OPERATORS | {"edges": OPERATORS["edges"] + [{"sourceId": 3, "destId": 1, "cost": 1}]}))
        self.write("none.json", json.dumps(OPERATORS | {"maxFPGAs": 0}))
        profile = ["plan", "graph", "p.txt"]
        self.all_refused((
            (["plan", "graph", "--cost", "max-load"], ["graph is missing", "trireme plan graph --help"]),
            (profile + ["e.toml"], ["e.toml", "unknown argument"]),
            (profile + ["--devices", "0", "--bandwidth", "1 GB/s"], ["--devices", "0", "from 1"]),
            (profile + ["--bandwidth", "1 GB/s"], ["--devices", "is needed"]),
            (profile + ["--devices", "2"], ["--bandwidth", "is needed"]),
            (profile + ["--devices", "2", "--bandwidth", "1"], ["--bandwidth", "\"1\"", "unit"]),
            (profile + ["--devices", "2", "--bandwidth", "0 GB/s"], ["--bandwidth", "0 GB/s"]),
            (profile + ["--devices", "2", "--bandwidth", "fast"], ["--bandwidth", "fast"]),
            (profile + ["--devices", "2", "--bandwidth", "1e300 TB/s"], ["--bandwidth", "1e300 TB/s", "too large"]),
            (profile + ["--devices", "2", "--bandwidth", "0.5 B/s"], ["--bandwidth", "less than 1 B/s"]),
            (profile + ["--devices", "two", "--bandwidth", "1 GB/s"], ["--devices", "two", "whole number"]),
            (profile + ["--devices", "2", "--bandwidth", "1 GB/s", "--cost", "max-load", "--straight"], ["--straight", "max-load"]),
            (profile + ["--cost", "max-lod"], ["--cost", "max-lod", "did you mean \"max-load\"?"]),
            (profile + ["--cost", "latency", "--devices", "2", "--bandwidth", "1 GB/s"], ["p.txt", "latency", "JSON"]),
            (profile + ["--devices", "2", "--bandwidth", "1 GB/s", "--time-limit", "soon"], ["--time-limit", "soon"]),
            (profile + ["--devices", "2", "--bandwidth", "1 GB/s", "--json", "no/where.json"], ["--json", "no folder"]),
            (["plan", "graph", "gone.txt"], ["gone.txt", "cannot be read"]),
            (["plan", "graph", "cycle.txt", "--devices", "2", "--bandwidth", "1 GB/s"], ["cycle.txt", "n3 -> n1", "cycle"]),
            (["plan", "graph", "cut.txt", "--devices", "2", "--bandwidth", "1 GB/s"], ["cut.txt:4", "parameter_size is missing"]),
            (["plan", "graph", "cut.json", "--cost", "max-load"], ["cut.json", "not valid JSON"]),
            (["plan", "graph", "empty.txt", "--devices", "2", "--bandwidth", "1 GB/s"], ["empty.txt", "no nodes"]),
            (["plan", "graph", "back.json", "--cost", "max-load"], ["back.json", "cycle"]),
            (["plan", "graph", "none.json", "--cost", "max-load"], ["none.json", "no devices"]),
            (["plan", "graph", "", "--cost", "latency"], ["argument 3", "no value is given"]),
            (["plan", "graph", "text.txt", "--devices", "2", "--bandwidth", "1 GB/s"], ["text.txt:1", "once upon"]),
            (["plan", "graph", "broken.json", "--cost", "max-load"], ["broken.json", "not valid JSON"]),
            (["plan", "graph", "o.json"], ["o.json", "pipedream", "max-load"]),
            (["plan", "graph", "o.json", "--cost", "max-load", "--bandwidth", "1 GB/s"], ["--bandwidth", "o.json"]),
            (["plan", "graph", "o.json", "--cost", "latency", "--straight"], ["--straight", "latency"]),
            (["plan", "graph", "o.json", "--cost", "max-load"], ["o.json", "20 bytes", "missing per device"]),
            (["plan", "graph", "o.json", "--cost", "latency"], ["o.json", "20 bytes", "missing per device"])), data=False)
