"""Two tables of the study `comparative` as Markdown: how many times as fast as one device, and what was reached.
Usage: comparative_table.py STUDY_JSON"""
import json
import sys

from study import table

PARTS = {"Time, memory, communication": "speedup", "Convergence": None}  # None: the quality, the column before "lost"
TASKS = {"mnist": "MNIST, convolutional network", "mnist-vgg": "MNIST, VGG-11, width / 8", "mnist-resnet": "MNIST, ResNet-18, width / 8",
         "cifar10-vgg": "CIFAR-10, VGG-11, width / 4", "cifar10": "CIFAR-10, ResNet-18, width / 4", "sst2": "SST-2, bag of words",
         "sst2-bert": "SST-2, BERT of one layer", "ptb": "Penn Treebank, LSTM with state", "camvid": "CamVid, U-Net",
         "camvid-segnet": "CamVid, SegNet", "unequal": "MNIST, unequal workers"}


def cells_of(run, title):
    """The cells of a run's column by strategy, and the column's title."""
    columns = run["table"]
    titles = [c["title"] for c in columns]
    column = columns[titles.index(title) if title else titles.index("lost") - 1]
    return dict(zip(columns[0]["cells"], column["cells"])), column["title"]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        parts = {part["title"]: part["runs"] for part in json.load(file)["parts"]}
    for part, title in PARTS.items():
        found = {run["run"]: cells_of(run, title) for run in parts[part] if run["run"] in TASKS}
        strategies = list(dict.fromkeys(s.split(",")[0] for cells, _ in found.values() for s in cells))
        rows = []
        for run, (cells, name) in found.items():
            short = {s.split(",")[0]: cell for s, cell in reversed(cells.items())}
            rows.append([TASKS[run] + ("" if title else f", {name}"), *(short.get(s, "") for s in strategies)])
        table(["task", *(f"`{s}`" for s in strategies)], rows)


if __name__ == "__main__":
    main()
