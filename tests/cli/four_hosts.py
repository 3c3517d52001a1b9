"""`trireme launch --hosts` over a real network, between hosts that are network namespaces."""
from emulated_hosts import EmulatedHosts, missing
from launch import Launch as _Launch
from support import CliTest


class FourHosts(CliTest):
    curve, weights, in_threads = _Launch.curve, _Launch.weights, _Launch.in_threads

    def test_train_what_threads_do(self):
        if missing():
            self.skipTest(missing())
        with EmulatedHosts(4) as network:
            for number, plan in enumerate(("data", "gpipe", "data=2,tensor=2")):
                self.in_threads(f"t{number}", plan, 4)
                out, _ = self.trireme("launch", "--hosts", network.hosts(), "--ssh", network.instead_of_ssh(), "train", "e.toml",
                                      "--plan", plan, "--out", f"p{number}", "--json", f"p{number}.json")
                self.assertIn("backend gloo through eth0", out)
                self.assertEqual(self.curve(f"p{number}.json"), self.curve(f"t{number}.json"), plan)
                self.assertEqual(self.weights(f"p{number}"), self.weights(f"t{number}"), plan)

    def test_links_are_as_slow_as_they_say(self):
        """Tests the emulation: the time of data between two hosts fits the limit."""
        if missing():
            self.skipTest(missing())
        with EmulatedHosts(2, "80mbit") as network:
            _, speed = network.measure(size=4_000_000)
        self.assertLess(speed, 10.5e6)
        self.assertGreater(speed, 2e6, "a lost packet costs 0.2 s")
