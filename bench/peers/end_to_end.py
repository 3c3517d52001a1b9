"""For bench/end_to_end.sh: writes the last section of docs/end-to-end.md. Usage: end_to_end.py TRIREME CLUSTERS WORK_FOLDER DOCUMENT

Makes small replacements of the data sets (a prediction needs only their shapes and vocabularies), predicts with trireme, and writes tables in
Markdown that compare the results with the published numbers, which are known from a second source."""
import json
import os
import re
import subprocess
import sys
import textwrap

import numpy

MARK = "<!-- written by bench/end_to_end.sh; do not edit below -->\n"
LARGE, NODE = "32xdgx1-v100.cluster.toml", "dgx1-v100.cluster.toml"

HEAD = """name = "{name}"
batch = {batch}
devices = [1]
precision = "{precision}"
"""
INCEPTION = """
[model]
name = "inception-v3"

[data]
name = "tensors"
task = "classification"
classes = 1000
train = ["x.npy", "y.npy"]
test = ["x.npy", "y.npy"]

[optimizer]
kind = "rmsprop"
learning_rate = 0.01
"""
GNMT = """
[model]
name = "gnmt"
options = { layers = 4, width = 1024 }

[data]
name = "parallel-text"
tokenizer = "word"
joint = false
sequence = 50
train = ["a.txt", "b.txt"]
test = ["a.txt", "b.txt"]

[optimizer]
kind = "adam"
learning_rate = 0.001
"""
BIG_LSTM = """
[model]
name = "big-lstm"
options = { layers = 2, hidden = 8192, projection = 1024, samples = 8192 }

[data]
name = "text"
tokenizer = "word"
sequence = 20
train = ["words.txt"]
test = ["some.txt"]

[optimizer]
kind = "adagrad"
learning_rate = 0.2
"""

# Batch per GPU, samples of an epoch, published step speedup of two devices and gain, assumed epochs by number of workers (None: the target is not
# reached).
NETWORKS = {
    "Inception-V3": dict(text=INCEPTION, batch=64, samples=1281167, speedup=1.32, gain=26.5,
                         epochs={1: 4, 32: 4, 64: 7, 128: 16, 256: 23},
                         source="the paper's figure, in its normalised units: constant up to 32 GPUs, "
                                "about 7, 16 and 23 at 64, 128 and 256"),
    "GNMT": dict(text=GNMT, batch=128, samples=4500000, speedup=1.15, gain=8, epochs={1: 1, 128: 1, 256: None},
                 source="constant up to 128 workers; the epochs for 256 are not known, only that the crossover is at about 256 GPUs"),
    "BigLSTM": dict(text=BIG_LSTM, batch=128, samples=38400000, speedup=1.22, gain=22, epochs={1: 1, 32: 1, 64: None},
                    source="constant up to 32 workers; with more, data parallelism does not reach the target"),
}


def write_data(folder):
    with open(os.path.join(folder, "a.txt"), "w") as a, open(os.path.join(folder, "b.txt"), "w") as b:
        for line in range(1280):
            words = " ".join(f"w{line * 25 + i}" for i in range(25))
            a.write(words + "\n")
            b.write(words + "\n")
    words = 793468  # with the end of a line and the unknown word: 793,470, the vocabulary of the billion-word benchmark
    with open(os.path.join(folder, "words.txt"), "w") as f:
        for begin in range(0, words, 40):
            f.write(" ".join(f"w{i}" for i in range(begin, min(words, begin + 40))) + "\n")
    with open(os.path.join(folder, "some.txt"), "w") as f:
        f.write(" ".join(f"w{i}" for i in range(200)) + "\n")
    images = 64  # a batch; the file of zeros takes no space
    numpy.lib.format.open_memmap(os.path.join(folder, "x.npy"), "w+", numpy.float32, (images, 3, 299, 299))
    numpy.save(os.path.join(folder, "y.npy"), numpy.array([999] + [0] * (images - 1)))


def with_32_gib(clusters, folder):
    """A folder with copies of the cluster files whose GPUs have 32 GiB, as some V100 have: dense gradients of BigLSTM's words do not fit into
    16."""
    for name in (LARGE, NODE):
        with open(os.path.join(clusters, name)) as source, open(os.path.join(folder, name), "w") as copy:
            text = source.read().replace('memory = "16 GiB"', 'memory = "32 GiB"')
            assert "32 GiB" in text
            copy.write(re.sub(r'table = "([^"]+)"', lambda m: f'table = "{os.path.abspath(os.path.join(clusters, m.group(1)))}"', text))
    return folder


def run(trireme, *arguments):
    return subprocess.run([trireme, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def epochs_flag(network):
    return ",".join(f"{network['batch'] * workers}:{'-' if e is None else e}" for workers, e in network["epochs"].items())


def table(titles, rows):
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def seconds(value):
    return "–" if value is None else f"{value / 3600:.3g} h"


def step_speedups(trireme, clusters, folder, experiment):
    """Step time of one device over that of two, by strategy."""
    strategies = "single;tensor;1f1b,micro_batches=4;1f1b,micro_batches=8;branches;placement"
    rows = {}
    for strategy in strategies.split(";"):
        out = os.path.join(folder, "s.json")
        done = subprocess.run([trireme, "simulate", experiment, "--cluster", os.path.join(clusters, NODE), "--devices", "2",
                               "--strategies", strategy, "--json", out], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            continue
        with open(out) as f:
            row = json.load(f)["rows"][0]
        if row["status"] in ("ok", "does not fit"):  # memory does not matter here
            rows[strategy] = row["step_seconds"]["median"]
    return {name: rows["single"] / value for name, value in rows.items()}


def published_projection(network):
    """From the published step speedup and the assumed epochs, with SE_MN = SE_N: the gain of the best hybrid over the best data parallelism on up
    to 256 devices, both in units of one device's epoch."""
    data = [(e / n, n) for n, e in network["epochs"].items() if e is not None]
    hybrid = [(e / (n * network["speedup"]), n) for n, e in network["epochs"].items() if e is not None and 2 * n <= 256]
    (best_data, n), (best_hybrid, workers) = min(data), min(hybrid)
    return 100 * (best_data / best_hybrid - 1), n, 2 * workers


def wrapped(text, indent=""):
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) + "\n"


def section(summary, speedups, projections):
    """The last section of the document. `summary`, `speedups`: rows of tables; `projections`: text."""
    text = ["\n", wrapped(
        "These tables compare the published gains of hybrid over data parallelism (Pal et al., 2019) with predictions. "
        "The paper's text was not available: its numbers are second-hand and **unverified**, and the epochs are taken from a "
        "description of its figures. Nothing is tuned to these numbers."), "\n",
            table(["", "published gain over the best data parallelism", "growth of the epochs that this gain needs with the published SU^2",
                   "gain by the published SU^2, epochs below, equal efficiencies", "gain predicted here, epochs below",
                   "crossover here, GPUs", "best SU^2 here"], summary), "\n", wrapped(
        "If both use the same devices, a gain g needs epochs that grow by E_MN/E_N = 2 (1 + g)/SU^2. Where data parallelism no "
        "longer reaches the target on so many devices, the best hybrid is compared with the largest data parallelism that reaches "
        "it. Then the gain is SU^2 itself, as in the published 22 % of BigLSTM."), "\n", wrapped(
        "The next table has the speedup of a step of two devices as one worker over the step of one device (one DGX-1, fp32):"), "\n",
            table(["", "published, unverified", "tensor", "1f1b, 4 micro-batches", "1f1b, 8", "branches", "placement"], speedups), "\n", wrapped(
        "`branches` and `placement` put layers on different devices, as the paper's DLPlacer does: whole branches, or any layer "
        "on any device, found by a search ([planner.md](planner.md#operators-on-devices)). \"–\": nothing is gained by it."), "\n", wrapped(
        "An LSTM whose hidden units are split exchanges its state at every step; each exchange is charged a launch, the link's latency "
        "and its bytes ([simulation.md](simulation.md), \"Inside layers\")."),
            *projections, "\nThese inputs are all assumptions:\n\n", wrapped(
        "- **Steps** are predicted by the simulator from a datasheet (`examples/clusters/32xdgx1-v100.cluster.toml`, fp32, 400 Gbit/s "
        "between machines, but 32 GiB for each GPU, because dense gradients of BigLSTM's words do not fit into 16): an approximation. "
        "Which precision and which network the paper used is not known here.", "  ")]
    for name, network in NETWORKS.items():
        epochs = ", ".join(f"{n}: {'not reached' if e is None else e}" for n, e in network["epochs"].items())
        text.append(wrapped(f"- **{name}**: {network['batch']} samples per worker; {network['samples']:,} samples per epoch; "
                            f"published SU^2 {network['speedup']} and gain {network['gain']:g} %; epochs by workers {{{epochs}}}: "
                            f"{network['source']}.", "  "))
    text.append(wrapped(
        "- **Models**: Inception-V3 with its auxiliary head at 299 pixels and 1000 classes; GNMT with 4 + 4 layers of 1024, 32,000 words, "
        "sentences of 50; BigLSTM with 2 layers of 8192 projected to 1024, 793,470 words, 8192 of them sampled, 20 steps.", "  "))
    return "".join(text)


def main():
    trireme, clusters, folder, document = sys.argv[1:]
    write_data(folder)
    clusters = with_32_gib(clusters, folder)
    speedups, summary, projections = [], [], []
    for name, network in NETWORKS.items():
        experiment = os.path.join(folder, re.sub(r"\W", "", name) + ".toml")
        with open(experiment, "w") as f:
            f.write(HEAD.format(name=name.lower(), batch=network["batch"], precision="fp32") + network["text"])
        found = step_speedups(trireme, clusters, folder, experiment)
        best = max((value, key) for key, value in found.items() if key != "single")
        speedups.append([name, f"{network['speedup']:.2f}"] + [f"{found[s]:.2f}" if s in found else "–"
                                                             for s in ("tensor", "1f1b,micro_batches=4", "1f1b,micro_batches=8",
                                                                       "branches", "placement")])
        result = os.path.join(folder, "a.json")
        run(trireme, "plan", "project", experiment, "--devices", "1..256", "--cluster", os.path.join(clusters, LARGE),
            "--epochs", epochs_flag(network), "--batch-per-worker", str(network["batch"]), "--epoch-samples", str(network["samples"]),
            "--json", result)
        with open(result) as f:
            projection = json.load(f)["projections"][0]
        rows = projection["rows"]
        known = lambda kind: [row[kind] for row in rows if row[kind] and row[kind]["seconds"]]
        data, hybrid = (min(known(kind), key=lambda p: p["seconds"]) for kind in ("data", "hybrid"))
        replay, data_devices, hybrid_devices = published_projection(network)
        summary.append([name, f"{network['gain']:g} %", f"{2 * (1 + network['gain'] / 100) / network['speedup']:.3f}",
                        f"{replay:+.1f} % ({hybrid_devices} over {data_devices} GPUs)",
                        f"{100 * (data['seconds'] / hybrid['seconds'] - 1):+.1f} % ({hybrid['devices']} over {data['devices']} GPUs, "
                        f"`{hybrid['strategy']}`)",
                        str(projection["crossover"] or "–"), f"{best[0]:.2f}"])
        cell = lambda p, key: "–" if p is None else key(p)
        projections.append(f"\n**{name}**, {network['batch']} samples for every data-parallel worker\n\n" + table(
            ["GPUs", "data: step", "epochs", "time", "best hybrid", "step", "epochs", "time"],
            [[str(row["devices"])] + [text for kind in ("data", "hybrid") for text in (
                ([cell(row[kind], lambda p: f"`{p['strategy']}`")] if kind == "hybrid" else []) +
                [cell(row[kind], lambda p: f"{1000 * p['step_seconds']:.0f} ms"),
                 cell(row[kind], lambda p: f"{p['epochs']:.3g}" if p["epochs"] else "–"),
                 cell(row[kind], lambda p: seconds(p["seconds"]))])]
             for row in rows]))
    text = section(summary, speedups, projections)
    with open(document) as f:
        before = f.read()
    with open(document, "w") as f:
        f.write(before[:before.index(MARK) + len(MARK)] + text)


if __name__ == "__main__":
    main()
