"""The part of docs/adaptive.md that shows why `exact` gains little over fixed plans: the same step simulated with slower links, without overlap
and with fewer samples on each device. Usage: adaptive_causes.py TRIREME CLUSTER FOLDER (for bench/adaptive.sh)"""
import json
import os
import re
import subprocess
import sys

from adaptive_rows import MODELS, number, seconds, table, wrapped, write_experiment

TRIREME, CLUSTER, FOLDER = sys.argv[1:4]
DEVICES = 8
AIM = 1.18
LINKS = {  # bandwidth and latency of each device's link; None: those of the cluster file
    "as in the file": None,
    "PCIe, 12 GB/s": ("12 GB/s", "5 us"),
    "25 Gbit/s": ("25 Gbit/s", "20 us"),
    "10 Gbit/s": ("10 Gbit/s", "20 us"),
}
BATCHES = (128, 32, 16)  # 16, 4 and 2 samples on each of 8 devices
FIXED = ("single", "data", "tensor", "1f1b", "hybrid:tensor", "hybrid:pipeline", "hybrid-static")
LONGEST_PLAN = 70


def without_table(text, name):
    return re.sub(rf"(?m)^\[{name}\]\n(?:(?!\[).*\n?)*", "", text)


def write_cluster(link, overlaps):
    """Writes the cluster with other links between its devices, or without communication during computing."""
    with open(CLUSTER, encoding="utf-8") as f:
        text = f.read()
    if link:
        text, changed = re.subn(r"(?m)^link = \{[^}]*\}", f'link = {{ bandwidth = "{link[0]}", latency = "{link[1]}" }}', text)
        if not changed:
            sys.exit(f"adaptive_causes.py: {CLUSTER} has no link that could be replaced")
    if not overlaps:
        text = "overlaps = false\n" + without_table(text, "overlap")
    text = without_table(text, "price")  # prices are in another file and not needed here
    text = re.sub(r"(?m)^instance = .*\n", "", text)
    path = os.path.join(FOLDER, "changed.cluster.toml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def simulate(experiment, cluster):
    out = os.path.join(FOLDER, "causes.json")
    run = subprocess.run([TRIREME, "simulate", experiment, "--cluster", cluster, "--devices", str(DEVICES), "--strategies",
                          ",".join(FIXED + ("exact",)), "--json", out], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(run.stderr)
    with open(out, encoding="utf-8") as f:
        return {row["name"]: row for row in json.load(f)["rows"]}


class Case:
    """One row of the table."""

    def __init__(self, links, overlaps, batch, rows):
        self.links, self.overlaps, self.batch, self.rows, self.exact = links, overlaps, batch, rows, rows["exact"]
        known = [rows[n] for n in FIXED if seconds(rows[n]) is not None]
        if not known or seconds(self.exact) is None:
            sys.exit(f"adaptive_causes.py: {links}, batch {batch}: no plan was simulated: {self.exact['reason']}")
        self.fixed = min(known, key=seconds)
        self.over_fixed = seconds(self.fixed) / seconds(self.exact)
        self.over_static = seconds(rows["hybrid-static"]) / seconds(self.exact) if seconds(rows["hybrid-static"]) else None

    def data_exposed(self):
        return self.rows["data"]["communication"]["exposed_share"] or 0

    def sent(self, name):
        row = self.rows[name]
        return number(row["communication"]["bytes_per_step"] / 2**20 if seconds(row) else None, "{:.0f}")

    def cells(self):
        exact = self.exact
        busy = sum(exact["busy_share"]) / len(exact["busy_share"])
        exposed = exact["communication"]["exposed_share"] or 0
        plan = exact["plan"] if len(exact["plan"]) <= LONGEST_PLAN else exact["plan"][:LONGEST_PLAN - 1].rsplit(",", 1)[0] + ", …"
        gain = lambda value: number(value, "**{:.2f}**" if value and value >= AIM else "{:.2f}")
        return [self.links, "yes" if self.overlaps else "no", str(self.batch // DEVICES), f"{1000 * seconds(self.rows['data']):.1f}",
                f"{100 * self.data_exposed():.0f}", f"{self.sent('data')} / {self.sent('hybrid:tensor')}",
                f"`{self.fixed['name']}`: {1000 * seconds(self.fixed):.1f}",
                f"{plan}: {1000 * seconds(exact):.1f}", f"{100 * exposed:.0f}", f"{100 * max(0.0, 1 - busy - exposed):.0f}",
                gain(self.over_static), gain(self.over_fixed)]


def main():
    print(HEAD)
    cases = []
    for name, (model, optimizer) in MODELS.items():
        print(f"\n### {name}, {DEVICES} devices")
        mine = []
        for batch in BATCHES:
            experiment = write_experiment(FOLDER, model, optimizer, batch)
            for overlaps in (True, False):
                for links, link in LINKS.items():
                    mine.append(Case(links, overlaps, batch, simulate(experiment, write_cluster(link, overlaps))))
        table(["links", "overlap", "samples a device", "`data`, ms", "exposed, %", "`data` / `hybrid:tensor` send, MiB",
               "best fixed plan, ms", "`exact`, ms", "exposed, %", "waiting, %",
               "exact over hybrid-static", "over the best fixed plan"], [c.cells() for c in mine], 1)
        cases += [(name, c) for c in mine]
    print(verdict(cases))


def verdict(cases):
    """A summary of the tables, made from their numbers only."""
    lines = []
    for overlaps in (True, False):
        for batch in BATCHES:
            gains = []
            for name in MODELS:
                over = [c.over_fixed for n, c in cases if n == name and c.overlaps == overlaps and c.batch == batch]
                gains.append(f"{name} " + ", ".join(f"{value:.2f}" for value in over))
            lines.append(f"- {batch // DEVICES} samples a device, {'with' if overlaps else 'without'} overlap: " + "; ".join(gains))
    there = [c for _, c in cases if c.over_fixed >= AIM]
    little = [c for _, c in cases if c.data_exposed() < 1 - 1 / AIM]
    most = max((c.over_fixed for c in little), default=None)
    return (f"### What decides\n\nGain of `exact` over the best fixed plan, by links ({'; '.join(LINKS)}):\n\n" + "\n".join(lines) +
            "\n\n" + wrapped(f"{len(there)} of {len(cases)} cases reach {AIM}. Where data parallelism exposes less than "
                             f"{100 * (1 - 1 / AIM):.0f} % of its step, "
                             f"{len(little)} cases, even hiding all of it cannot gain {AIM}; the greatest gain there is "
                             f"{number(most, '{:.2f}')}.") +
            "\n\n" + READING)


HEAD = """## Why so little is gained, measured apart

The tables below simulate the same step with one thing changed at a time: slower links between the devices (every device
has its own link), no communication while computing (`overlaps = false` in the cluster file: gradients are reduced when
the device does nothing else), and fewer samples on each device.

"Exposed" is the share of a step in which a device moves data and computes nothing; "waiting" is the share in which it
does neither. "Best fixed plan" is the plan with the fastest simulated step among one device, data, tensor, pipeline
(`1f1b`), both hybrids, and the plan that `hybrid-static` chooses by its own formula. Gains of 1.18 and more are bold."""
READING = """So an adaptive plan gains only where two conditions hold together.

First, in data parallelism the reductions of gradients must be exposed: not hidden behind computing. Over NVLink they are
hidden. Then the best adaptive plan is data parallelism, or a plan that is as fast.

Second, another plan must send less than these reductions. The reductions send the gradients of the weights, and their
bytes do not depend on the batch. Tensor parallelism sends activations of every layer, and pipelines send the
activations at the borders of the stages; both become fewer with fewer samples. A ResNet has large activations: with 16
samples on a device hardly any plan sends less, and with fewer samples the last layers (many weights, small images) are
split. A transformer has small activations at the borders and many weights: with slower links pipelines are the best.

If "over the best fixed plan" is 1.00 and "exact over hybrid-static" is not, the best plan is a fixed one: one device
or a fixed pipeline."""
if __name__ == "__main__":
    main()
