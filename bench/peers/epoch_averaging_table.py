"""docs/epoch-averaging.md and its charts for bench/epoch_averaging.sh. Usage: epoch_averaging_table.py BUILD EXAMPLES DOCS RUNS"""
import contextlib
import io
import os
import sys

from study import compare, draw, duration, final, first_at, seconds, size, table, value

BUILD, EXAMPLES, DOCS, RUNS = sys.argv[1:5]
TRIREME = os.path.join(BUILD, "trireme")
MOST = 64
CLAIMED = 0.95  # of the training time less

NETWORKS = ["1 Gbit/s", "100 Gbit/s"]  # all numbers of workers over the first, MOST over the other: one talks to nobody
LATENCY = {"1 Gbit/s": "50 us", "100 Gbit/s": "2 us"}
STUDIES = {
    "epoch-averaging": ("MNIST", "accuracy"),
    "epoch-averaging-cifar10": ("CIFAR-10", "accuracy"),
    "epoch-averaging-housing": ("California housing", "r2"),
}
NAMES = {
    "synchronous": "gradients in every step",
    "local-sgd,every=1 epochs": "average per epoch",
    "async-average": "asynchronous average",
}
# what 64 workers are given more of, to come to what one worker has
LONGER = {"epoch-averaging": 4, "epoch-averaging-housing": 4}
EPOCHS = {"epoch-averaging": 4, "epoch-averaging-cifar10": 4, "epoch-averaging-housing": 20}  # as in the files


def on(network):
    return [f"update.virtual.{link}.{key}" for link in ("link", "server_link")
            for key in (f"bandwidth={network}", f"latency={LATENCY[network]}")]


def quality(number, metric):
    return f"{100 * number:.2f} %" if metric == "accuracy" else f"{number:.3f}"


def counts_of(rows):
    return sorted({d for _, d in rows})


def fewer(network):
    return [] if network == NETWORKS[0] else [f"devices={MOST}"]


def time_table(rows):
    counts = counts_of(rows)
    print(f"\nModelled training time over {NETWORKS[0]}, and the share of one worker's time that is saved:")
    cells = []
    for name, words in NAMES.items():
        one = seconds(rows[name, 1])
        cells.append([words] + [duration(seconds(rows[name, d])) + ("" if d == 1 else f" ({100 * (1 - seconds(rows[name, d]) / one):.1f} %)")
                                for d in counts])
    table(["workers"] + [str(d) for d in counts], cells)


def quality_table(rows, metric):
    counts = counts_of(rows)
    print(f"Test {'accuracy' if metric == 'accuracy' else 'R²'} after the last epoch:")
    table(["workers"] + [str(d) for d in counts],
          [[words] + [quality(final(rows[name, d], metric), metric) for d in counts] for name, words in NAMES.items()])


def bytes_table(rows):
    counts = [d for d in counts_of(rows) if d > 1]
    print("Sent by all workers together:")
    table(["workers"] + [str(d) for d in counts],
          [[words] + [size(rows[name, d]["replicas"]["bytes_sent"]) for d in counts] for name, words in NAMES.items()])


def chart(study, metric, by_network):
    rows = by_network[NETWORKS[0]]
    title = "test error after the last epoch, %" if metric == "accuracy" else "1 - R2 on the test set after the last epoch"
    scale = 100 if metric == "accuracy" else 1
    panels = [(f"modelled training time over {NETWORKS[0]}, s", True,
               {words: [(d, seconds(rows[name, d])) for d in counts_of(rows)] for name, words in NAMES.items()}),
              (title, True, {words: [(d, scale * (1 - final(rows[name, d], metric))) for d in counts_of(rows)] for name, words in NAMES.items()})]
    draw(os.path.join(BUILD, "bench", "draw_chart"), os.path.join(DOCS, study + ".svg"), panels)


def verdict(metric, by_network):
    """What the claim comes to on MOST workers: (lines of the summary table)."""
    lines = []
    for network, rows in by_network.items():
        for name, words in NAMES.items():
            one, many = by_network[NETWORKS[0]][name, 1], rows[name, MOST]
            saved = 1 - seconds(many) / seconds(one)
            lost = final(one, metric) - final(many, metric)
            lines.append([network, words, f"{100 * saved:.1f} %", f"{seconds(one) / seconds(many):.1f}", "yes" if saved >= CLAIMED else "no",
                          quality(final(one, metric), metric), quality(final(many, metric), metric),
                          f"{100 * lost:+.2f} points" if metric == "accuracy" else f"{lost:+.3f}"])
    return lines


def longer(study, metric, level):
    """MOST workers with more epochs: when do they come to what one worker has in the end?"""
    times, cells = LONGER[study], []
    rows = runs(study, NETWORKS[0], f"-x{times}", [f"length={times * EPOCHS[study]} epochs", f"devices={MOST}"])
    for name, words in NAMES.items():
        row = rows[name, MOST]
        reached = first_at(row, metric, level["quality"])
        best = max(value(e, metric) for e in row["evaluations"])
        cells.append([words, duration(reached["seconds"]) if reached else "never", f"{100 * (1 - reached['seconds'] / level['seconds']):.1f} %" if reached else "-",
                      f"{reached['epoch']:.0f}" if reached else "-", quality(best, metric), duration(seconds(row))])
    print(f"{MOST} workers over {NETWORKS[0]} with {times} times the epochs, {times * EPOCHS[study]}: when they come to the {quality(level['quality'], metric)} that "
          f"one worker has after {EPOCHS[study]} epochs and {duration(level['seconds'])}.")
    table([f"{MOST} workers", "time to there", "saved", "epochs", "best", "time of all epochs"], cells)


def runs(study, network, suffix="", settings=()):
    """{(name, devices): row}"""
    rows = {}
    for number, name in enumerate(NAMES):
        folder = os.path.join(RUNS, f"{study}{suffix}-{network.split()[0]}-{number}")
        for row in compare(TRIREME, os.path.join(EXAMPLES, study + ".toml"), folder, on(network) + list(settings), [name]):
            rows[name, row["devices"]] = row
    return rows


def section(study, data, metric):
    by_network = {network: runs(study, network, "", fewer(network)) for network in NETWORKS}
    print(f"## {data}\n\n{ABOUT[study]}\n\n![times and quality against workers]({study}.svg)")
    time_table(by_network[NETWORKS[0]])
    quality_table(by_network[NETWORKS[0]], metric)
    bytes_table(by_network[NETWORKS[0]])
    if study in LONGER:
        one = by_network[NETWORKS[0]]["local-sgd,every=1 epochs", 1]
        longer(study, metric, {"quality": final(one, metric), "seconds": seconds(one)})
    chart(study, metric, by_network)
    return [[data, *line] for line in verdict(metric, by_network)]


def main():
    body, lines = [], []
    for study, (data, metric) in STUDIES.items():
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            lines += section(study, data, metric)
        body.append(text.getvalue())
    print(HEAD + "\n")
    print(f"## What came out\n\n{MOST} workers beside one, after equally many epochs:")
    table(["data", "network", f"{MOST} workers", "time saved", "times as fast", "95 %?", "one worker", f"{MOST} workers", "lost"], lines, 3)
    print(SEEN + "\n")
    print("\n".join(body).rstrip())


HEAD = """# Averages once per epoch beside a gradient in every step

Written by `bench/epoch_averaging.sh`; do not edit by hand.

dislib trains on a block of the samples per worker and averages weights when an epoch is over, waiting for all or for nobody. Its authors
(Vazquez-Novoa, López, Flich, Badia, "Scalable neural network training", WACCPD 2025) claim up to 95 % less training time, scaling to 64
workers, and an accuracy that is kept or better. Here the same is trained by the side of a gradient of all workers in every step, on the
[modelled clock](updates.md#the-clock): every weight is really computed, times are a model's.

- Every worker has batches of 32, whatever their number, and the learning rate stays the same: 64 workers make a 64th of the steps in an epoch.
- A step takes what a core of a shared Xeon with AVX-512 takes for its samples, with a jitter of 10 %. Every worker, and the server of the asynchronous
  average, has a connection of 1 Gbit/s with 50 µs, or of 100 Gbit/s with 2 µs as clusters like the authors' have.
- `gradients in every step` is `synchronous`: a ring all-reduce after each backward pass, none of it hidden. `average per epoch` is `local-sgd`,
  `asynchronous average` is `async-average` with the share of 1/2 that dislib takes."""
SEEN = """"Lost" is what 64 workers end below one worker with the same policy. Over the slow network a gradient in every step spends most of its time
on the network; averaging once per epoch hardly needs it, and saves nearly all that 64 workers can save. The asynchronous average has to
move every worker's weights through one server: where epochs are short, that server's connection is what all wait for. Over the fast network the
three take about the same time, and the policy is chosen by quality alone.

The 95 % are a question of epochs, not of quality: after equally many epochs 64 workers, which averaged 64 times as few steps each, are
behind. Where more epochs make up for that, the tables below say what is left of the time saved."""
ABOUT = {
    "epoch-averaging": "A multilayer perceptron (784-200-200-10, 199,210 weights), SGD with momentum, 4 epochs; 20 µs a sample.",
    "epoch-averaging-cifar10": "A small convolutional network (two convolutions, two linear layers), SGD with momentum, 4 epochs; 0.2 ms a sample.",
    "epoch-averaging-housing": "Regression: a multilayer perceptron with two hidden layers of 64, SGD with momentum, 20 epochs; 2 µs a sample.",
}
if __name__ == "__main__":
    main()
