#!/usr/bin/env python3
"""oracle_train.py ORACLE_TRAIN: compares twenty steps of training on one device with PyTorch's modules, autograd, optimizers and learning-rate
schedules, in double, from the same initial weights: losses, every parameter and every averaged parameter after every step. LARS and LAMB, which
PyTorch does not have, are written here from their papers."""
import pathlib
import subprocess
import sys
import tempfile
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel

SIZES = [8, 5, 8, 3, 1] * 4
STEPS_PER_EPOCH = 5
CLASSES = 10
TOLERANCE = 1e-10  # relative to a tensor's largest magnitude


class Lars(torch.optim.Optimizer):
    """You, Gitman, Ginsburg 2017: equation 6, algorithm 1. Vectors take plain steps without decay."""

    def __init__(self, parameters, lr, momentum=0.0, weight_decay=0.0, trust=0.001):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                local, decay = 1.0, 0.0
                if w.dim() > 1:
                    decay = group["decay"]
                    local = group["trust"] * w.norm() / (w.grad.norm() + decay * w.norm())
                v = self.state[w].setdefault("velocity", torch.zeros_like(w))
                v.copy_(group["momentum"] * v + group["lr"] * local * (w.grad + decay * w))
                w.sub_(v)


class Lamb(torch.optim.Optimizer):
    """You et al. 2019: algorithm 2 with phi(x) = x. Vectors take plain steps without decay."""

    def __init__(self, parameters, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state.update(t=0, m=torch.zeros_like(w), v=torch.zeros_like(w))
                state["t"] += 1
                state["m"].copy_(one * state["m"] + (1 - one) * w.grad)
                state["v"].copy_(two * state["v"] + (1 - two) * w.grad**2)
                ratio = state["m"] / (1 - one ** state["t"]) / ((state["v"] / (1 - two ** state["t"])).sqrt() + group["eps"])
                if w.dim() > 1:
                    ratio = ratio + group["decay"] * w
                    ratio = ratio * w.norm() / ratio.norm()
                w.sub_(group["lr"] * ratio)


def warmed_up(optimizer, steps, then):
    """Rates of 1/steps, 2/steps, ... times the full rate, then those of the scheduler that `then` makes."""
    first = lr_scheduler.LinearLR(optimizer, start_factor=1 / steps, total_iters=steps - 1)
    return lr_scheduler.SequentialLR(optimizer, [first, then(optimizer)], milestones=[steps])


MODELS = ("mlp", "mnist-convnet")
TOTAL = len(SIZES)
RECIPES = [  # the [optimizer] table, the optimizer, its schedule, the trained models
    ({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.0}, lambda p: torch.optim.SGD(p, 0.1), None, MODELS),
    ({"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01},
     lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01), None, ("mlp",)),
    ({"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "ema": 0.9},
     lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01), None, MODELS),
    ({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.8, "clip_norm": 0.5},
     lambda p: torch.optim.SGD(p, 0.1, momentum=0.8), None, ("mlp",)),
    ({"kind": "adam", "learning_rate": 0.01}, lambda p: torch.optim.Adam(p, 0.01), None, MODELS),
    ({"kind": "adam", "learning_rate": 0.01, "weight_decay": 0.05, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4},
     lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.05), None, ("mlp",)),
    ({"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1, "clip_norm": 0.5},
     lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1), None, MODELS),
    ({"kind": "adagrad", "learning_rate": 0.05}, lambda p: torch.optim.Adagrad(p, 0.05), None, ("mlp",)),
    ({"kind": "adagrad", "learning_rate": 0.05, "rate_decay": 0.1, "weight_decay": 0.01, "initial_accumulator": 0.2, "epsilon": 1e-6},
     lambda p: torch.optim.Adagrad(p, 0.05, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.2, eps=1e-6), None, ("mlp",)),
    ({"kind": "rmsprop", "learning_rate": 0.001}, lambda p: torch.optim.RMSprop(p, 0.001), None, ("mlp",)),
    ({"kind": "rmsprop", "learning_rate": 0.001, "alpha": 0.9, "momentum": 0.8, "weight_decay": 0.01, "epsilon": 1e-5},
     lambda p: torch.optim.RMSprop(p, 0.001, alpha=0.9, momentum=0.8, weight_decay=0.01, eps=1e-5), None, ("mlp",)),
    ({"kind": "rmsprop", "learning_rate": 0.001, "centered": True},
     lambda p: torch.optim.RMSprop(p, 0.001, centered=True), None, ("mlp",)),
    ({"kind": "rmsprop", "learning_rate": 0.001, "centered": True, "momentum": 0.5},
     lambda p: torch.optim.RMSprop(p, 0.001, centered=True, momentum=0.5), None, ("mlp",)),
    ({"kind": "lars", "learning_rate": 1.0, "momentum": 0.9, "weight_decay": 0.01, "trust": 0.02, "ema": 0.8},
     lambda p: Lars(p, 1.0, momentum=0.9, weight_decay=0.01, trust=0.02), None, MODELS),
    ({"kind": "lars", "learning_rate": 0.1, "momentum": 0.0, "trust": 0.5, "clip_norm": 0.5},
     lambda p: Lars(p, 0.1, trust=0.5), None, ("mlp",)),
    ({"kind": "lamb", "learning_rate": 0.01, "weight_decay": 0.1}, lambda p: Lamb(p, 0.01, weight_decay=0.1), None, MODELS),
    ({"kind": "lamb", "learning_rate": 0.01, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4, "clip_norm": 0.5},
     lambda p: Lamb(p, 0.01, betas=(0.8, 0.95), eps=1e-4), None, ("mlp",)),
    ({"learning_rate": 0.1, "schedule": "step", "decay_every": "7 steps", "decay_factor": 0.5},
     lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda o: lr_scheduler.StepLR(o, 7, gamma=0.5), ("mlp",)),
    ({"learning_rate": 0.1, "schedule": "multistep", "decay_at": ["1 epochs", "3 epochs"]}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
     lambda o: lr_scheduler.MultiStepLR(o, [5, 15]), ("mlp",)),
    ({"learning_rate": 0.1, "schedule": "cosine", "minimum_learning_rate": 0.01}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
     lambda o: lr_scheduler.CosineAnnealingLR(o, TOTAL, eta_min=0.01), ("mlp",)),
    ({"learning_rate": 0.1, "schedule": "polynomial", "power": 2}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
     lambda o: lr_scheduler.PolynomialLR(o, TOTAL, power=2), ("mlp",)),
    ({"learning_rate": 0.1, "schedule": "cosine", "warmup": "0.8 epochs"}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
     lambda o: warmed_up(o, 4, lambda o: lr_scheduler.CosineAnnealingLR(o, TOTAL - 4)), ("mlp",)),
    ({"learning_rate": 0.4, "reference_batch": 32}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), None, ("mlp",)),  # for a batch of 8
]


def mlp():
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), fc1=nn.Linear(12, 256), relu1=nn.ReLU(), fc2=nn.Linear(256, 256),
                                     relu2=nn.ReLU(), fc3=nn.Linear(256, CLASSES)))


def convnet():
    return nn.Sequential(OrderedDict(conv1=nn.Conv2d(1, 16, 5), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2), conv2=nn.Conv2d(16, 32, 5),
                                     relu2=nn.ReLU(), pool2=nn.MaxPool2d(2), flatten=nn.Flatten(), fc1=nn.Linear(512, 128),
                                     relu3=nn.ReLU(), fc2=nn.Linear(128, CLASSES)))


def toml_of(table):
    def value_of(value):
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return "[" + ", ".join(map(value_of, value)) + "]"
        return f'"{value}"' if isinstance(value, str) else str(value)

    return "\n".join(f"{key} = {value_of(value)}" for key, value in table.items())


def averaged(net, ema):
    """The weights of a step count `ema` times as much as those of the next step; all shares add up to 1."""
    def average(old, new, steps):  # PyTorch copies the first weights
        whole = (1 - ema ** (int(steps) + 1)) / (1 - ema)
        return old + (new - old) / whole

    return AveragedModel(net, avg_fn=average)


def read(path, like):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.double).view(like.shape)


def check(program, name, net, shape, recipe):
    table, optimizer_of, scheduler_of, _ = recipe
    torch.manual_seed(3)
    net = net().double()
    batches = [(torch.randn(n, *shape, dtype=torch.double), torch.randint(CLASSES, (n,))) for n in SIZES]
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for step, (data, target) in enumerate(batches):
            (folder / f"data{step}.bin").write_bytes(data.numpy().tobytes())
            (folder / f"target{step}.bin").write_bytes(target.numpy().tobytes())
        (folder / "optimizer.toml").write_text(toml_of(table))
        subprocess.run([program, str(folder), name, str(CLASSES), ",".join(map(str, SIZES)), str(STEPS_PER_EPOCH),
                        ",".join(map(str, shape))], check=True)
        with torch.no_grad():
            for key, parameter in net.named_parameters():
                parameter.copy_(read(folder / f"{key}.initial", parameter))
        optimizer = optimizer_of(net.parameters())
        scheduler = scheduler_of(optimizer) if scheduler_of else None
        average = averaged(net, table["ema"]) if "ema" in table else None

        def compare(path, expected):
            nonlocal compared
            compared += 1
            expected = expected.detach()
            error = (read(path, expected) - expected).abs().max().item()
            if not error <= TOLERANCE * expected.abs().max().item():
                failures.append(f"{name}, {table}: {path.name} differs by {error}")

        for step, (data, target) in enumerate(batches):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(data), target)
            loss.backward()
            if "clip_norm" in table:
                nn.utils.clip_grad_norm_(net.parameters(), table["clip_norm"])
            optimizer.step()
            if scheduler:
                scheduler.step()
            compare(folder / f"loss.{step}", loss.view(1))
            for key, parameter in net.named_parameters():
                compare(folder / f"{key}.{step}", parameter)
            if average:
                average.update_parameters(net)
                for key, parameter in average.module.named_parameters():
                    compare(folder / f"{key}.average.{step}", parameter)
    print(f"{name}, {table}: {compared} tensors compared, {len(failures)} differ")
    return failures


def main():
    torch.set_num_threads(1)
    failures = []
    for recipe in RECIPES:
        if "mlp" in recipe[3]:
            failures += check(sys.argv[1], "mlp", mlp, (12,), recipe)
        if "mnist-convnet" in recipe[3]:
            failures += check(sys.argv[1], "mnist-convnet", convnet, (1, 28, 28), recipe)
    print("\n".join(failures[:10]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
