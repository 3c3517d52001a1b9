"""`trireme plan` without a verb, as in earlier versions: it works, and prints the command with its verb."""
import json

from graphs import PROFILE
from predictions import CLUSTER
from support import CliTest


class OldSpellingsOfPlan(CliTest):
    def check(self, old, new):
        out, err = self.trireme("plan", *old, data=False)
        first, _, rest = err.partition("\n")
        self.assertEqual(first, "trireme: trireme plan has verbs now; write: trireme plan " + " ".join(new))
        again, err = self.trireme("plan", *new, data=False)
        self.assertNotIn("has verbs now", err)
        return out, again, rest, err

    def setUp(self):
        super().setUp()
        self.write("c.toml", CLUSTER.replace("MEMORY", "8 GiB"))
        self.write("p.txt", PROFILE)
        self.own = ["e.toml", "--data-dir", self.data]

    def test_a_named_plan(self):
        for given, name in (([], "data"), (["--plan", "tensor=2"], "tensor=2"),
                            (["--plan=single"], "single")):  # none of these plans depends on measured layers
            out, again, _, _ = self.check([*self.own, *given], ["show", name, *self.own, "--json", "-"])
            self.assertEqual(json.loads(out), json.loads(again))
            self.assertEqual(json.loads(out)["model"], "mlp")

    def test_the_best_plan(self):
        flags = ["--devices", "2", "--cluster", "c.toml"]
        out, again, _, _ = self.check([*self.own, "--objective", "time", *flags], ["best", *self.own, *flags, "--objective", "time"])
        self.assertEqual(out, again)

    def test_a_projection(self):
        flags = ["--devices", "1..2", "--cluster", "c.toml", "--epochs", "32:4,64:5", "--epoch-samples", "1280"]
        out, again, tables, tables_again = self.check([*self.own, "--objective=accuracy", *flags], ["project", *self.own, *flags])
        self.assertEqual((out, tables), (again, tables_again))

    def test_a_graph_file(self):
        flags = ["--devices", "2", "--bandwidth", "1000000000B/s"]
        out, again, _, _ = self.check(["--graph", "p.txt", "--limit", "60s", *flags], ["graph", "p.txt", *flags, "--time-limit", "60s"])
        self.assertEqual(out.splitlines()[1:], again.splitlines()[1:])

    def test_help_is_of_the_verbs(self):
        out, err = self.trireme("plan", "--help", data=False)
        for verb in ("best", "graph", "project", "show"):
            self.assertRegex(out, rf"\n  {verb} ")
        self.assertEqual(err, "")
