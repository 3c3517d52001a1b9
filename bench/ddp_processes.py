#!/usr/bin/env python3
"""Compares two processes over gloo: Trireme under a plan and PyTorch's DistributedDataParallel, on the same two cores and network, alternately. A
ResNet-18 on 32x32 images (resnet18, torchvision's, is limited by its weights; cifar-resnet18 by arithmetic), batch 128, channels_last, one thread
per process and tcmalloc in both. First over this machine's loopback, then, with root and network namespaces, between two hosts with a connection
of 1 Gbit/s each (tests/cli/emulated_hosts.py).

Exposed communication is the time by which a step is longer than a step without communication: two processes at the same time, each with half the
batch. Prints a table for docs/backends.md.

Usage: bench/ddp_processes.py BUILD [ROUNDS] [MODEL] [PLAN]   (3 rounds, resnet18, data; needs train_step and Debian's python3-torch)"""
import glob
import os
import pathlib
import secrets
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))
from emulated_hosts import INTERFACE, EmulatedHosts, missing  # noqa: E402

BATCH, PROCESSES, PORT = 128, 2, 29641
STEPS = {"resnet18": 20, "cifar-resnet18": 4}
MALLOC = next(iter(glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")), "")


class Loopback:
    name, link = "loopback", "127.0.0.1"

    def address(self, _):
        return self.link

    def inside(self, _, command):
        return command

    interface = "lo"


def on_core(rank, command):
    return ["taskset", "-c", str(sorted(os.sched_getaffinity(0))[rank % os.cpu_count()]), *command]


class Bench:
    def __init__(self, build, model, plan):
        self.flags = ["--model", model, "--steps", str(STEPS[model])]
        self.plan = plan
        self.trireme = [str(pathlib.Path(build).resolve() / "bench" / "train_step")]
        self.pytorch = ["/usr/bin/python3", str(HERE / "peers" / "ddp.py")]
        self.token = secrets.token_hex(16)
        self.port = PORT

    def start(self, network, command, rank, together, batch):
        environment = dict(os.environ, LD_PRELOAD=MALLOC if command is self.pytorch else "", TRIREME_TOKEN=self.token,
                           GLOO_SOCKET_IFNAME=network.interface, OMP_NUM_THREADS="1")
        if together:
            environment.update(RANK=str(rank), WORLD_SIZE=str(PROCESSES), LOCAL_RANK="0", MASTER_ADDR=network.address(0),
                               MASTER_PORT=str(self.port))
        if command is self.trireme:
            extra = ["--plan", self.plan if together else "single"]
        else:
            extra = [] if together else ["--processes", "1"]
        return subprocess.Popen(network.inside(rank, on_core(rank, [*command, *self.flags, "--batch", str(batch), *extra])),
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rate(self, network, command, together):
        """Images per second of both processes, of one run of both or of two runs that do not communicate."""
        self.port += 1
        started = [self.start(network, command, rank, together, BATCH if together else BATCH // PROCESSES) for rank in range(PROCESSES)]
        ended = [process.communicate(timeout=120) for process in started]
        for process, (_, error) in zip(started, ended):
            if process.returncode != 0:
                sys.exit(f"ddp_processes.py: {command[-1]}: exit code {process.returncode}\n{error[-2000:]}")
        rates = [float(output.split()[-1]) for output, _ in ended if output.strip()]
        return rates[0] if together else PROCESSES * statistics.harmonic_mean(rates)


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def measure(bench, network, rounds):
    rows = []
    for number in range(rounds):
        alone, together = [], []
        for command in (bench.trireme, bench.pytorch):
            alone.append(bench.rate(network, command, False))
            together.append(bench.rate(network, command, True))
        exposed = [(BATCH / t - BATCH / a) * 1e3 for t, a in zip(together, alone)]
        rows.append((*together, together[0] / together[1], *exposed))
        print(network.name, number, *(f"{x:.1f}" for x in (*alone, *rows[-1])), file=sys.stderr, flush=True)
    columns = list(zip(*rows))
    print(f"| {network.name} | {spread(columns[0], 1)} | {spread(columns[1], 1)} | {spread(columns[2], 2)} | {spread(columns[3], 0)} | "
          f"{spread(columns[4], 0)} |",
          flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rounds, model = int(sys.argv[2]) if len(sys.argv) > 2 else 3, sys.argv[3] if len(sys.argv) > 3 else "resnet18"
    bench = Bench(sys.argv[1], model, sys.argv[4] if len(sys.argv) > 4 else "data")
    print("| network | Trireme, images/s | PyTorch DDP, images/s | Trireme / DDP | exposed, ms per step, Trireme | exposed, DDP |")
    print("|---|---|---|---|---|---|")
    measure(bench, Loopback(), rounds)
    if missing():
        sys.exit(f"ddp_processes.py: no slow network: {missing()}")
    with EmulatedHosts(PROCESSES, "1gbit") as network:
        network.name, network.interface = "1 Gbit/s", INTERFACE
        measure(bench, network, rounds)


if __name__ == "__main__":
    main()
