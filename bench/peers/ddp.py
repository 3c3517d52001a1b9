"""Images per second of PyTorch's DistributedDataParallel on random images in memory: the counterpart of train_step.cpp. Starts its processes, or
is one of them if RANK and WORLD_SIZE are set; rank 0 prints."""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, c_in, c, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or c_in != c:
            self.downsample = nn.Sequential(nn.Conv2d(c_in, c, 1, stride, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x += skip
        return self.relu(x)


def resnet18(cifar, classes):
    stem = ([nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)] if cifar else
            [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)])
    blocks, c_in = [], 64
    for c, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(c_in, c, stride), Block(c, c, 1)]
        c_in = c
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def train(rank, args, results):
    torch.set_num_threads(args.threads)
    model = resnet18(args.model == "cifar-resnet18", args.classes).to(memory_format=torch.channels_last)
    if args.processes > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", str(args.port))
        dist.init_process_group("gloo", rank=rank, world_size=args.processes)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    n = args.batch // args.processes
    x = torch.rand(n, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    y = torch.randint(args.classes, (n,))
    start = 0.0
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            start = time.monotonic()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    end = time.monotonic()
    if results is None:  # all processes use this machine's clock
        times = [None] * args.processes
        dist.all_gather_object(times, (start, end))
        if rank == 0:
            report(args, times)
        sys.stdout.flush()
        dist.barrier()
        os._exit(0)  # 1.13 sometimes hangs while it closes its connections
    else:
        results.put((start, end))
    if args.processes > 1:
        dist.destroy_process_group()


def report(args, times):
    elapsed = max(t[1] for t in times) - min(t[0] for t in times)
    print(f"{args.batch * args.steps / elapsed:.1f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="cifar-resnet18", choices=["cifar-resnet18", "resnet18"])
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--port", type=int, default=29571)
    args = parser.parse_args()
    if "RANK" in os.environ:  # a launcher started this process
        args.processes = int(os.environ["WORLD_SIZE"])
        return train(int(os.environ["RANK"]), args, None)
    context = mp.get_context("spawn")
    results = context.Queue()
    if args.processes == 1:
        train(0, args, results)
    else:
        mp.spawn(train, (args, results), args.processes)
    report(args, [results.get() for _ in range(args.processes)])


if __name__ == "__main__":
    main()
