"""docs/epoch-averaging.md and its charts for bench/epoch_averaging.sh. Usage: epoch_averaging_table.py BUILD EXAMPLES DOCS RUNS"""
import contextlib
import io
import os
import sys

from study import compare, draw, duration, final, first_at, seconds, size, table, value

BUILD, EXAMPLES, DOCS, RUNS = sys.argv[1:5]
TRIREME = os.path.join(BUILD, "trireme")
MOST = 64
CLAIMED = 0.95  # share of the training time that is saved

NETWORKS = ["1 Gbit/s", "100 Gbit/s"]  # the first with all numbers of workers, the other only with MOST; one worker does not communicate
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
# factor of the epochs with which MOST workers may reach the quality of one worker
LONGER = {"epoch-averaging": 4, "epoch-averaging-housing": 4}
EPOCHS = {"epoch-averaging": 4, "epoch-averaging-cifar10": 4, "epoch-averaging-housing": 20}  # epochs, as in the files


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
    print(f"\nModelled training time over {NETWORKS[0]}, and the saving compared with one worker:")
    cells = []
    for name, words in NAMES.items():
        one = seconds(rows[name, 1])
        times = {d: seconds(rows[name, d]) for d in counts}
        cells.append([words] + [duration(times[d]) + ("" if d == 1 else f" ({100 * (1 - times[d] / one):.1f} %)") for d in counts])
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
              (title, True,
               {words: [(d, scale * (1 - final(rows[name, d], metric))) for d in counts_of(rows)] for name, words in NAMES.items()})]
    draw(os.path.join(BUILD, "bench", "draw_chart"), os.path.join(DOCS, study + ".svg"), panels)


def verdict(metric, by_network):
    """Lines of the summary table: time saved and quality lost with MOST workers."""
    lines = []
    for network, rows in by_network.items():
        for name, words in NAMES.items():
            one, many = by_network[NETWORKS[0]][name, 1], rows[name, MOST]
            saved = 1 - seconds(many) / seconds(one)
            lost = final(one, metric) - final(many, metric)
            lines.append([network, words, f"{100 * saved:.1f} %", f"{seconds(one) / seconds(many):.1f}", "yes" if saved >= CLAIMED
                          else "no", quality(final(one, metric), metric), quality(final(many, metric), metric),
                          f"{100 * lost:+.2f} points" if metric == "accuracy" else f"{lost:+.3f}"])
    return lines


def longer(study, metric, level):
    """MOST workers with more epochs: the time until they reach the final quality of one worker."""
    times, cells = LONGER[study], []
    rows = runs(study, NETWORKS[0], f"-x{times}", [f"length={times * EPOCHS[study]} epochs", f"devices={MOST}"])
    for name, words in NAMES.items():
        row = rows[name, MOST]
        reached = first_at(row, metric, level["quality"])
        best = max(value(e, metric) for e in row["evaluations"])
        cells.append([words, duration(reached["seconds"]) if reached else "never",
                      f"{100 * (1 - reached['seconds'] / level['seconds']):.1f} %" if reached else "-",
                      f"{reached['epoch']:.0f}" if reached else "-", quality(best, metric), duration(seconds(row))])
    print(f"{MOST} workers over {NETWORKS[0]} with {times} times the epochs, {times * EPOCHS[study]}: the time until they reach "
          f"{quality(level['quality'], metric)}, the result of one worker after {EPOCHS[study]} epochs and {duration(level['seconds'])}.")
    table([f"{MOST} workers", "time until then", "saved", "epochs", "best", "time of all epochs"], cells)


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
    print(f"## Results\n\n{MOST} workers compared with one, after equally many epochs:")
    table(["data", "network", f"{MOST} workers", "time saved", "times as fast", "95 %?", "one worker", f"{MOST} workers", "lost"], lines, 3)
    print(SEEN + "\n")
    print("\n".join(body).rstrip())


HEAD = """# Averages once per epoch compared with a gradient in every step

Written by `bench/epoch_averaging.sh`; do not edit by hand.

This page compares two ways to train on 1 to 64 workers: averaging weights once per epoch, and a gradient of all workers
in every step. It is for users who choose between [update policies](updates.md).

dislib trains on a block of the samples per worker and averages the weights at the end of each epoch, synchronously (all
workers wait for each other) or asynchronously (no worker waits). Its authors (Vazquez-Novoa, López, Flich, Badia,
"Scalable neural network training", WACCPD 2025) claim up to 95 % less training time, scaling to 64 workers, and an
accuracy that is kept or better. Here the same training is compared with a gradient of all workers in every step, on the
[modelled clock](updates.md#the-clock): all weights are really computed, the times are modelled.

- Every worker has batches of 32 for any number of workers, and the learning rate stays the same: 64 workers make a 64th
  of the steps in an epoch.
- A step takes the time of a core of a shared Xeon with AVX-512 for its samples, with a jitter of 10 %. Every worker,
  and the server of the asynchronous average, has a connection of 1 Gbit/s with 50 µs, or of 100 Gbit/s with 2 µs as
  clusters like the authors' have.
- `gradients in every step` is `synchronous`: a ring all-reduce after each backward pass, none of it hidden.
  `average per epoch` is `local-sgd`. `asynchronous average` is `async-average` with dislib's share of 1/2."""
SEEN = """"Lost" is the difference between one worker and 64 workers with the same policy. Over the slow network, training with a
gradient in every step spends most of its time on communication. Averaging once per epoch communicates little, and saves
nearly all the time that 64 workers can save. The asynchronous average moves every worker's weights through one server:
if epochs are short, all workers wait for that server's connection. Over the fast network the three policies take about
the same time, so only the quality matters for the choice.

The claim of 95 % less time is about equal epochs, not equal quality: after equally many epochs 64 workers have made
only a 64th of the steps, and their quality is lower. For the data sets that were also trained with more epochs, the tables below show
whether 64 workers reach the quality of one worker, and how much time they then save."""
ABOUT = {
    "epoch-averaging": "A multilayer perceptron (784-200-200-10, 199,210 weights), SGD with momentum, 4 epochs; 20 µs a sample.",
    "epoch-averaging-cifar10": "A small convolutional network (two convolutions, two linear layers), SGD with momentum, 4 epochs; 0.2 ms "
                               "a sample.",
    "epoch-averaging-housing": "Regression: a multilayer perceptron with two hidden layers of 64, SGD with momentum, 20 epochs; 2 µs a "
                               "sample.",
}
if __name__ == "__main__":
    main()
