#!/usr/bin/env python3
"""Plans on four hosts: network namespaces of this machine, each with a connection of 1 Gbit/s (tests/cli/emulated_hosts.py). Trains ResNet-18 on
CIFAR-10 under several plans, one process on each host, and compares measured steps with those that `trireme simulate` gives for this network from
a profile of this machine. Writes a table for docs/launch.md to the standard output. Needs root; a kernel without netem adds no delay.

Usage: bench/four_hosts.py TRIREME OUT [STEPS]   (STEPS: 12; TRIREME_DATA: the folder with CIFAR-10. OUT keeps the profile and the runs)"""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))
from emulated_hosts import EmulatedHosts, missing  # noqa: E402

HOSTS, BANDWIDTH, ONE_WAY = 4, 1e9 / 8, 0.1e-3
# name in the table, strategy
PLANS = [("data", "data"), ("data, gradients in bf16", "data,compression=bf16"), ("GPipe", "gpipe"), ("1F1B", "1f1b"),
         ("hybrid: data 2 x pipeline 2", "data=2,pipeline=2"), ("hybrid: data 2 x tensor 2", "data=2,tensor=2"),
         ("found by the planner", "exact")]
EXPERIMENT = """
name = "four-hosts"
seed = 1
batch = 64
length = "{steps} steps"
evaluate_every = "{steps} steps"
precision = "fp32"
devices = [{hosts}]
replicas = "private"
save_weights = false

[model]
name = "resnet18"

[data]
name = "cifar10"
train_limit = {samples}
test_limit = 64

[optimizer]
kind = "sgd"
learning_rate = 0.01
momentum = 0.9
"""


class Bench:
    def __init__(self, trireme, out, steps):
        self.trireme, self.out = os.path.abspath(trireme), pathlib.Path(out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.experiment = self.out / "e.toml"
        self.experiment.write_text(EXPERIMENT.format(steps=steps, hosts=HOSTS, samples=64 * steps))

    def run(self, *words):
        print("trireme " + " ".join(map(str, words)), file=sys.stderr, flush=True)
        done = subprocess.run([self.trireme, *map(str, words)], cwd=self.out, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"four_hosts.py: trireme {words[0]} failed: exit code {done.returncode}\n{done.stdout[-2000:]}")
        return done.stdout

    def predict(self, files, links):
        self.run("simulate", self.experiment, "--devices", HOSTS, "--strategies", ",".join(files), "--profile", "profile.json", *links,
                 "--json", "simulated.json")
        rows = json.loads((self.out / "simulated.json").read_text())["rows"]
        return {row["name"]: row for row in rows}

    def measure(self, network, file, devices):
        result = f"{file}.measured"
        self.run("launch", "--hosts", network.hosts(devices), "--ssh", network.instead_of_ssh(), "--no-bind", "train", self.experiment,
                 "--plan", file, "--out", f"run-{file}", "--json", result)
        row = json.loads((self.out / result).read_text())["rows"][0]
        if row["status"] != "ok":
            sys.exit(f"four_hosts.py: {file}: {row['reason']}")
        return row


def ranks(times):
    return [sorted(times).index(time) + 1 for time in times]


def rightly_ranked(predicted, measured, least=1.1):
    """Number of pairs of plans whose measured steps differ by more than a tenth, and number of those with the order predicted right."""
    pairs = [(a, b) for a in range(len(measured)) for b in range(a)
             if max(measured[a], measured[b]) > least * min(measured[a], measured[b])]
    return sum((predicted[a] < predicted[b]) == (measured[a] < measured[b]) for a, b in pairs), len(pairs)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if missing():
        sys.exit(f"four_hosts.py: skipped: {missing()}")
    bench = Bench(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 12)
    bench.run("profile", bench.experiment, "--devices", 2, "--budget", "90 s", "--out", "profile.json")
    with EmulatedHosts(HOSTS, "1gbit", ONE_WAY) as network:
        trip, speed = network.measure()
        links = ["--set", f'cluster.link.bandwidth="{BANDWIDTH * 8 / 1e9} Gbit/s"',
                 "--set", f'cluster.link.latency="{trip / 2 * 1e6:.0f} us"']
        files = {}
        for number, (name, strategy) in enumerate(PLANS):
            file = f"{number}.json"
            plan = bench.run("plan", "show", strategy, bench.experiment, "--json", "-", "--devices", HOSTS,
                             *(["--profile", "profile.json", *links] if strategy == "exact" else []))
            (bench.out / file).write_text(plan)
            files[name] = file, json.loads(plan)["devices"]
        predicted = bench.predict([file for file, devices in files.values() if devices == HOSTS], links)
        rows = [(name, predicted[file.removesuffix(".json")], bench.measure(network, file, devices))
                for name, (file, devices) in files.items() if devices == HOSTS]
        fewer = [f"{name}: {devices} devices" for name, (_, devices) in files.items() if devices != HOSTS]
    times = [[row["step_seconds"]["median"] for row in of] for of in ([p for _, p, _ in rows], [m for _, _, m in rows])]
    print(f"Four hosts, each with one connection: {speed * 8 / 1e9:.2f} Gbit/s between two as measured, round trip {trip * 1e3:.2f} ms"
          f"{'' if network.delayed else ' (no delay was added: this kernel has no netem)'}; {os.cpu_count()} cores for all.\n")
    print("| plan | sent, MiB per step | predicted step, ms | measured step, ms | measured over predicted | order predicted | order "
          "measured |")
    print("|---|---|---|---|---|---|---|")
    for (name, _, m), p_time, m_time, p_rank, m_rank in zip(rows, *times, *map(ranks, times)):
        sent = (m["communication"]["bytes_per_step"] or 0) / 2**20
        print(f"| {name} | {sent:.1f} | {p_time * 1e3:.0f} | {m_time * 1e3:.0f} | {m_time / p_time:.2f} | {p_rank} | {m_rank} |")
    right, pairs = rightly_ranked(*times)
    print(f"\nOf {pairs} pairs of plans whose steps differ by more than a tenth, {right} are in the predicted order.")
    for line in fewer:
        print(f"Not measured: {line}.")


if __name__ == "__main__":
    main()
