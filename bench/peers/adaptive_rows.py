"""For the tables of bench/adaptive.sh and bench/adaptive_real.sh: the strategies, experiments of zeros, rows and tables in Markdown."""
import os
import struct
import textwrap

CLASSES, PIXELS = 100, 224
MODELS = {
    "ResNet-50": ('name = "resnet50"', 'kind = "sgd"\nlearning_rate = 0.1\nmomentum = 0.9'),
    "ViT-B/16": ('name = "vit-b16"', 'kind = "adamw"\nlearning_rate = 1e-3'),
}
ROWS = {  # first the bars of the paper
    "single": "one device",
    "data": "data parallel",
    "tensor": "model parallel: layers divided",
    "1f1b": "model parallel: a pipeline",
    "hybrid:tensor": "hybrid: data n/2 x tensor 2",
    "hybrid:pipeline": "hybrid: data n/2 x pipeline 2",
    "hybrid-static": "best uniform data x tensor",
    "asa": "adaptive, RECONSTRUCTION of ASA",
    "exact": "adaptive, this project's",
}


def write_zeros(path, shape, kind, size):
    """A .npy of zeros that takes no space: simulating reads shapes only."""
    header = repr({"descr": kind, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        count = size
        for n in shape:
            count *= n
        f.truncate(f.tell() + count)


def write_experiment(folder, model, optimizer, batch):
    """Images and labels of zeros: simulating reads no values."""
    for split in ("train", "test"):
        write_zeros(os.path.join(folder, f"{split}-x.npy"), (batch, 3, PIXELS, PIXELS), "<f4", 4)
        write_zeros(os.path.join(folder, f"{split}-y.npy"), (batch,), "<i8", 8)
    path = os.path.join(folder, "experiment.toml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"""name = "adaptive"
batch = {batch}
length = "1 epochs"
precision = "fp32"
devices = [8]
strategies = ["single"]

[model]
{model}

[data]
name = "tensors"
train = ["train-x.npy", "train-y.npy"]
test = ["test-x.npy", "test-y.npy"]
task = "classification"
classes = {CLASSES}

[optimizer]
{optimizer}
""")
    return path


def seconds(row):
    return row["step_seconds"]["median"] if row and row["status"] == "ok" else None


def table(head, rows, left=1):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * left + "---:|" * (len(head) - left))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def number(value, text):
    return "-" if value is None else text.format(value)


def strategies_of(row):
    """Consecutive blocks with the same strategy, in one line."""
    runs = []
    for block in row["blocks"]:
        same = (block["stage"], block["strategy"])
        if runs and runs[-1][0] == same:
            runs[-1][2] = block["block"]
        else:
            runs.append([same, block["block"], block["block"]])
    return runs
