#!/usr/bin/env python3
"""oracle_train.py ORACLE_TRAIN: five steps of training on one device against PyTorch's modules, autograd and optimizers, in
double, from the same initial weights: losses and every parameter after every step."""
import pathlib
import subprocess
import sys
import tempfile
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

SIZES = [8, 5, 8, 3, 1]
CLASSES = 10
OPTIMIZERS = [  # kind, learning rate, momentum, nesterov, weight decay, clip
    ("sgd", 0.1, 0.0, False, 0.0, 0.0),
    ("sgd", 0.05, 0.9, False, 0.01, 0.0),
    ("sgd", 0.05, 0.9, True, 0.01, 0.0),
    ("sgd", 0.1, 0.8, False, 0.0, 0.5),
    ("adam", 0.01, 0.0, False, 0.0, 0.0),
    ("adam", 0.01, 0.0, False, 0.05, 0.0),
    ("adamw", 0.01, 0.0, False, 0.1, 0.5),
]


def mlp():
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), fc1=nn.Linear(12, 256), relu1=nn.ReLU(), fc2=nn.Linear(256, 256),
                                     relu2=nn.ReLU(), fc3=nn.Linear(256, CLASSES)))


def convnet():
    return nn.Sequential(OrderedDict(conv1=nn.Conv2d(1, 16, 5), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2), conv2=nn.Conv2d(16, 32, 5),
                                     relu2=nn.ReLU(), pool2=nn.MaxPool2d(2), flatten=nn.Flatten(), fc1=nn.Linear(512, 128),
                                     relu3=nn.ReLU(), fc2=nn.Linear(128, CLASSES)))


def optimizer_of(kind, net, rate, momentum, nesterov, decay):
    if kind == "sgd":
        return torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum, nesterov=nesterov, weight_decay=decay)
    return (torch.optim.Adam if kind == "adam" else torch.optim.AdamW)(net.parameters(), lr=rate, weight_decay=decay)


def read(path, like):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.double).view(like.shape)


def check(program, name, net, shape, recipe):
    kind, rate, momentum, nesterov, decay, clip = recipe
    torch.manual_seed(3)
    net = net().double()
    batches = [(torch.randn(n, *shape, dtype=torch.double), torch.randint(CLASSES, (n,))) for n in SIZES]
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for step, (data, target) in enumerate(batches):
            (folder / f"data{step}.bin").write_bytes(data.numpy().tobytes())
            (folder / f"target{step}.bin").write_bytes(target.numpy().tobytes())
        subprocess.run([program, str(folder), name, str(CLASSES), str(len(SIZES)), ",".join(map(str, SIZES)), kind, str(rate),
                        str(momentum), str(int(nesterov)), str(decay), str(clip), ",".join(map(str, shape))], check=True)
        with torch.no_grad():
            for key, parameter in net.named_parameters():
                parameter.copy_(read(folder / f"{key}.initial", parameter))
        optimizer = optimizer_of(kind, net, rate, momentum, nesterov, decay)

        def compare(path, expected):
            nonlocal compared
            compared += 1
            expected = expected.detach()
            error = (read(path, expected) - expected).abs().max().item()
            if not error <= 1e-10 * expected.abs().max().item():
                failures.append(f"{name}, {recipe}: {path.name} differs by {error}")

        for step, (data, target) in enumerate(batches):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(data), target)
            loss.backward()
            if clip > 0:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            optimizer.step()
            compare(folder / f"loss.{step}", loss.view(1))
            for key, parameter in net.named_parameters():
                compare(folder / f"{key}.{step}", parameter)
    print(f"{name}, {recipe}: {compared} tensors compared, {len(failures)} differ")
    return failures


def main():
    torch.set_num_threads(1)
    failures = []
    for recipe in OPTIMIZERS:
        failures += check(sys.argv[1], "mlp", mlp, (12,), recipe)
        failures += check(sys.argv[1], "mnist-convnet", convnet, (1, 28, 28), recipe)
    print("\n".join(failures[:10]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
