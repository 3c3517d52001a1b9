"""Trains MNIST for a while with processes that are killed, frozen and replaced at random, and checks the results: the accuracy, the curve,
processes, ports, files, memory. Not part of any test run.

    bench/soak.py BUILD_FOLDER [MINUTES=20] [SEED=1]

TRIREME_DATA names the folder with the data; without MNIST there, generated digits are used. The exit status is 0 if all checks pass.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROCESSES = 4
MARK = "TRIREME_SOAK"                 # in the environment of all processes that this script starts
LEAST_ACCURACY = 0.96
SECONDS_BETWEEN = (2, 12)             # range of the time between two disturbances
SECONDS_FROZEN = (0.2, 3)
MOST_GROWTH = 20 << 20                # limit for the growth of the launcher's memory, in bytes
EXPERIMENT_FLAGS = ["--set", "elastic=true", "--set", "length=1 epochs", "--set", "evaluate_every=0.5 epochs",
                    "--set", "checkpoint.every=50 steps", "--set", "target=0.97"]


def marked(mark):
    """Living processes of this soak."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as f:
                environment = dict(line.split(b"=", 1) for line in f.read().split(b"\0") if b"=" in line)
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
        except (OSError, ValueError):
            continue
        if environment.get(MARK.encode()) == mark.encode() and state != "Z":
            found[int(name)] = environment
    return found


def listening():
    """Ports at which any process of this machine listens."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if os.path.exists(table):
            with open(table, encoding="ascii") as f:
                ports |= {int(line.split()[1].rsplit(":", 1)[1], 16) for line in f.readlines()[1:] if line.split()[3] == "0A"}
    return ports


def launcher_use(pid):
    """Bytes of memory and open files of the launcher."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        kilobytes = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
    return kilobytes << 10, len(os.listdir(f"/proc/{pid}/fd"))


class Soak:
    def __init__(self, program, minutes, seed):
        self.program, self.end = program, time.monotonic() + 60 * minutes
        self.draw = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="trireme-soak-")
        self.mark = os.path.basename(self.folder)
        self.ports = set()                # ports of the rendezvous
        self.faults, self.counts = [], {"runs": 0, "killed": 0, "frozen": 0, "groups": 0}

    def check(self, holds, fault):
        if not holds:
            self.faults.append(f"run {self.counts['runs']}: {fault}")
            print("  FAULT:", fault, flush=True)

    def ranks(self, launcher):
        ranks = {pid: environment for pid, environment in marked(self.mark).items() if pid != launcher and b"RANK" in environment}
        self.ports |= {int(environment[b"MASTER_PORT"]) for environment in ranks.values()}
        return sorted(ranks)

    def disturb(self, launcher):
        ranks = self.ranks(launcher)
        if not ranks:
            return
        pid = self.draw.choice(ranks)
        try:
            if self.draw.random() < 0.6:
                os.kill(pid, signal.SIGKILL)
                self.counts["killed"] += 1
            else:
                os.kill(pid, signal.SIGSTOP)
                self.counts["frozen"] += 1
                time.sleep(self.draw.uniform(*SECONDS_FROZEN))
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def run(self):
        """Runs one training and disturbs it until the time is over."""
        self.counts["runs"] += 1
        out = os.path.join(self.folder, f"run-{self.counts['runs']}")
        restarts = ["--restarts", "1000"] + (["--restart-after", "5 s"] if self.draw.random() < 0.5 else [])
        with open(out + ".log", "w", encoding="utf-8") as log:
            example = os.path.join(HERE, "..", "examples", "mnist.toml")
            plan = self.draw.choice(["data", "zero1", "1f1b"])
            command = [self.program, "launch", "-n", str(PROCESSES), *restarts, "train", example, "--plan", plan, *EXPERIMENT_FLAGS,
                       "--out", out]
            process = subprocess.Popen(command, env={**os.environ, MARK: self.mark}, stdout=log, stderr=log)
        use, settled, seen = [], time.monotonic() + 10, 0
        next_at = time.monotonic() + self.draw.uniform(*SECONDS_BETWEEN)
        while process.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            if now > settled:
                try:
                    use.append(launcher_use(process.pid))
                except (OSError, AttributeError):
                    pass  # the process has just ended
            metrics = os.path.join(out, "metrics.jsonl")
            trained = os.path.getsize(metrics) if os.path.exists(metrics) else 0
            if now > next_at and now < self.end and trained != seen:  # otherwise the group has only just begun
                seen = trained
                self.disturb(process.pid)
                next_at = time.monotonic() + self.draw.uniform(*SECONDS_BETWEEN)
        self.judge(process, out, use)

    def judge(self, process, out, use):
        with open(out + ".log", encoding="utf-8", errors="replace") as f:
            log = f.read()
        self.check(process.returncode == 0, f"exit code {process.returncode}: {log[-2000:]}")
        left = marked(self.mark)
        self.check(not left, f"processes are left: {sorted(left)}")
        if use:
            self.check(use[-1][0] - use[0][0] < MOST_GROWTH, f"the launcher's memory went from {use[0][0] >> 20} to {use[-1][0] >> 20} MiB")
            most = max(files for _, files in use)
            self.check(most <= use[0][1] + 2 * PROCESSES, f"the launcher's open files went from {use[0][1]} to {most}")
        if process.returncode == 0:
            self.judge_folder(out)

    def judge_folder(self, out):
        with open(os.path.join(out, "run.json"), encoding="utf-8") as f:
            row = json.load(f)["rows"][0]
        with open(os.path.join(out, "elastic-groups.jsonl"), encoding="utf-8") as f:
            groups = len(f.readlines())
        self.counts["groups"] += groups
        steps = [point["step"] for point in row["curve"]]
        self.check(steps == list(range(1, len(steps) + 1)), "steps are missing or there twice")
        accuracy = row["test"]["metrics"][0]["value"]
        self.check(accuracy >= LEAST_ACCURACY, f"accuracy {accuracy}")
        checkpoints = os.listdir(os.path.join(out, "checkpoints"))
        self.check(not [name for name in checkpoints if name.endswith(".tmp")] and len(checkpoints) <= 3, f"checkpoints: {checkpoints}")
        verified = subprocess.run([self.program, "checkpoints", "verify", out], capture_output=True, text=True)
        self.check(verified.returncode == 0, f"checkpoints verify: {verified.stdout}")
        strangers = [name for name in os.listdir(out) if ".tmp" in name]
        self.check(not strangers, f"files are left: {strangers}")
        seconds = [change["seconds"] for change in row["changes"]] if "changes" in row else []
        print(f"run {self.counts['runs']}: {row['plan']}, {groups} groups, accuracy {accuracy:.4f}"
              + (f", {sum(seconds) / len(seconds):.1f} s (at most {max(seconds):.1f} s) until training went on" if seconds else ""),
              flush=True)

    def soak(self):
        while time.monotonic() < self.end:
            self.run()
        time.sleep(1)
        self.check(not listening() & self.ports, f"ports are left: {sorted(listening() & self.ports)}")
        for pid in marked(self.mark):
            os.kill(pid, signal.SIGKILL)
        print(", ".join(f"{count} {what}" for what, count in self.counts.items()) + f", {len(self.faults)} faults")
        if not self.faults:
            shutil.rmtree(self.folder)
        else:
            print("\n".join(["faults:", *self.faults, f"what the runs left is in {self.folder}"]))
        return 1 if self.faults else 0


def main():
    if len(sys.argv) < 2 or not os.access(os.path.join(sys.argv[1], "trireme"), os.X_OK):
        sys.exit("usage: bench/soak.py BUILD_FOLDER [MINUTES] [SEED], where BUILD_FOLDER has trireme")
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    sys.exit(Soak(os.path.join(os.path.abspath(sys.argv[1]), "trireme"), minutes, seed).soak())


if __name__ == "__main__":
    main()
