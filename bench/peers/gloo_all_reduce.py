"""All-reduce between two processes over torch.distributed's gloo backend on loopback.

Prints "gloo bytes seconds_min seconds_median" for each size, like bench_all_reduce.
Usage: gloo_all_reduce.py
"""

import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = 2
SIZES = (4_000, 1_000_000, 25_000_000, 100_000_000)
MEASURED_SECONDS = 0.4


def run(rank, store):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        repetitions = int(min(500, max(3, MEASURED_SECONDS / (size / 1e9 + 3e-4))))
        seconds = []
        for i in range(repetitions + 1):
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(tensor)
            if i:
                seconds.append(time.perf_counter() - start)
        if rank == 0:
            print(f"gloo {size} {min(seconds):.9f} {statistics.median(seconds):.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(os.path.join(folder, "store"),), nprocs=RANKS)
