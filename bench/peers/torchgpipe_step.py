"""Images per second of torchgpipe on random images in memory: the counterpart of train_step.cpp --plan pipeline=2 --cut layer3.0.conv1.

The first argument is the path of a torchgpipe checkout. Two partitions on the CPU, cut before layer3; nothing is recomputed.
"""
import argparse
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from ddp import Block


class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        return self.fc(x.mean((2, 3)))


def layers(classes):
    stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
    blocks = []
    c_in = 64
    for group in range(4):
        for i in range(2):
            blocks.append(Block(c_in, 64 << group, 2 if group > 0 and i == 0 else 1))
            c_in = 64 << group
    return [stem, *blocks, Head(c_in, classes)]


class Bfloat16(nn.Module):
    """torchgpipe runs partitions in its own threads: autocast is thread-local, so it must be switched on inside."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.module(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("torchgpipe")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()
    sys.path.insert(0, args.torchgpipe)
    from torchgpipe import GPipe

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    parts = layers(args.classes)
    if args.precision == "bf16":
        parts = [Bfloat16(part) for part in parts]
    module = nn.Sequential(*parts).to(memory_format=torch.channels_last)
    model = GPipe(module, balance=[5, 5], devices=["cpu", "cpu"], chunks=args.chunks, checkpoint="never")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    x = torch.rand(args.batch, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.randint(args.classes, (args.batch,))
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            start = time.monotonic()
        optimizer.zero_grad()
        F.cross_entropy(model(x).float(), y).backward()
        optimizer.step()
    print(f"{args.batch * args.steps / (time.monotonic() - start):.1f}")


if __name__ == "__main__":
    main()
