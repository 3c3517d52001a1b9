"""How a run with processes ends if one process freezes, is cut off or computes values that are not finite."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import support
from launch import LONG, Launch, free_port
from support import BUSY, CliTest, alive, children_of, json_lines, stop, text_of

CHECKPOINTS = ["--set", "checkpoint.every=3 steps"]
SILENT = "has shown no sign of life for 5 s"


def npy(file, shape, values, kind):
    """A NumPy array file."""
    header = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(file, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                + struct.pack(f"<{len(values)}{ {'f4': 'f', 'i8': 'q'}[kind] }", *values))


class Failures(CliTest):
    launch, training, wait_for, gone, rank = Launch.launch, Launch.training, Launch.wait_for, Launch.gone, Launch.rank

    def whole_checkpoints_in(self, folder):
        """Writes checkpoints as the run would; the last one is damaged."""
        self.trireme("train", "e.toml", "--plan", "data", "--devices", "2", "--out", f"threads-{folder}", *CHECKPOINTS)
        shutil.copytree(self.path(f"threads-{folder}", "checkpoints"), self.path(folder, "checkpoints"))
        self.assertEqual(sorted(os.listdir(self.path(folder, "checkpoints"))), ["step-00000003", "step-00000006"])
        os.remove(self.path(folder, "checkpoints", "step-00000006", "checkpoint.json"))

    def freeze(self, pid):
        time.sleep(0.3)
        os.kill(pid, signal.SIGSTOP)
        return time.monotonic()

    def test_a_frozen_rank(self):
        for frozen in (1, 0):
            folder = f"o{frozen}"
            process = self.launch("-n", "3", "train", "e.toml", "--out", folder, "--json", folder + ".json", *LONG)
            ranks = self.training(process, folder)
            self.whole_checkpoints_in(folder)
            self.freeze(ranks[frozen])
            self.gone([pid for rank, pid in ranks.items() if rank != frozen], 10)
            self.assertEqual(process.wait(3 * BUSY), 1, process.said())
            self.gone(ranks.values(), 1)
            said = process.said()
            culprit = [line for line in said.splitlines() if line.startswith("trireme: rank")]
            self.assertEqual(len(culprit), 1, said)
            self.assertRegex(culprit[0],
                             rf"^trireme: rank {frozen} has shown no sign of life for \d s, stopped by a signal, and was killed; "
                             r"it was in step \d+")
            self.assertEqual(len(re.findall(r"^trireme: last operations: step \d+, ", said, re.M)), 10, said)
            if frozen == 1:
                row = self.json(folder, "run.json")["rows"][0]
                self.assertEqual(row["status"], "failed")
                self.assertIn(f"rank 0: rank 1 {SILENT}", row["reason"])
                self.assertRegex(row["reason"], r"last sign of life was in step \d+")
                self.assertEqual(self.json(folder + ".json")["rows"][0]["reason"], row["reason"])
                log = text_of(self.path(folder, "logs", "rank-0.log"))
                self.assertIn("rank 0 of 3: process ", log)
                self.assertRegex(log, "data: failed: .*" + re.escape(row["reason"][row["reason"].index("rank 0: rank 1"):]))
            else:  # rank 0 was killed, so the launcher prints this
                self.assertIn("newest complete checkpoint: after step 3, o0/checkpoints/step-00000003\n", said)
                self.assertIn("to resume: trireme launch -n 3 train e.toml", said)
                self.assertIn("--plan data --resume o0\n", said)

    def test_a_dead_rank_0_leaves_a_checkpoint(self):
        process = self.launch("-n", "2", "--no-bind", "train", "e.toml", "--out", "o", *LONG)
        ranks = self.training(process)
        self.whole_checkpoints_in("o")
        os.kill(ranks[0], signal.SIGKILL)
        self.assertEqual(process.wait(10 * BUSY), 1, process.said())
        said = process.said().splitlines()
        self.assertRegex(said[-3], r"^trireme: rank 0 was ended by signal 9 \(Killed\) in step \d+, ")
        self.assertIn("after step 3", said[-2])
        self.assertIn("to resume: trireme launch -n 2 --no-bind train e.toml", said[-1])
        run = self.json("o", "run.json")
        row = run["rows"][0]
        self.assertEqual((run["status"], run["experiment"], row["status"], row["strategy"]), ("finished", "small", "failed", "data"))
        self.assertRegex(row["reason"], r"^rank 0 was ended by signal 9 \(Killed\) in step \d+")
        self.assertGreater(row["curve"][-1]["step"], 2)
        out, _ = self.trireme("report", "o", data=False)
        for words in ("data on 2 devices: failed: rank 0 was ended by signal 9", "--resume"):
            self.assertIn(words, " ".join(out.split()))

    def test_one_rank_receives_a_signal_to_end(self):
        """A signal that the launcher did not send ends one rank."""
        process = self.launch("-n", "3", "train", "e.toml", "--out", "o", *LONG, *CHECKPOINTS)
        ranks = self.training(process)
        os.kill(ranks[1], signal.SIGTERM)
        self.assertEqual(process.wait(10 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        row = self.json("o", "run.json")["rows"][0]
        self.assertEqual((row["status"], row["reason"]), ("interrupted", "rank 1 received a signal to end"))
        self.assertNotIn("ended with exit code", process.said(), "it did not fail")
        self.assertTrue(process.printed().splitlines()[-1].startswith("to resume: "), process.printed())
        self.assertEqual(int(sorted(os.listdir(self.path("o", "checkpoints")))[-1][5:]), row["curve"][-1]["step"])

    def small_disk(self, size="4m"):
        """A folder on its own small file system."""
        folder = self.path("disk")
        os.mkdir(folder)
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
                                               capture_output=True).returncode != 0:
            self.skipTest("no file system can be mounted")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        return os.path.join(folder, "filler")

    def on_the_disk(self, *flags):
        """Starts a run that has written checkpoints on this file system."""
        name = self.path("said")
        with open(name, "w", encoding="utf-8") as said:
            process = subprocess.Popen([support.PROGRAM, "launch", "-n", "2", "train", "e.toml", "--data-dir", self.data,
                                        "--out", "disk/o", *LONG, *CHECKPOINTS,
                                        *flags], cwd=self.folder, env=self.environment, stdout=said, stderr=said)
        process.said = lambda: text_of(name)
        self.addCleanup(stop, process)
        checkpoints = self.path("disk", "o", "checkpoints")
        self.wait_for(process, lambda: os.path.isdir(checkpoints) and len(os.listdir(checkpoints)) > 1)
        return process

    @staticmethod
    def fill(file):
        with open(file, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 12))
            except OSError:
                return

    def test_a_full_disk(self):
        """Checkpoints and records stop, training continues; when there is space they are written again."""
        filler = self.small_disk()
        process = self.on_the_disk()
        self.fill(filler)
        self.wait_for(process, lambda: "records of steps have a gap" in process.said() and "was not written" in process.said())
        self.assertIn("No space left on device", process.said())
        os.remove(filler)
        self.wait_for(process, lambda: "records of steps are written again" in process.said())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20 * BUSY), 1, process.said())
        self.assertEqual(self.json("disk", "o", "run.json")["rows"][0]["status"], "interrupted")
        for line in text_of(self.path("disk", "o", "metrics.jsonl")).splitlines():
            json.loads(line)
        self.trireme("checkpoints", "verify", "disk/o", data=False)

    def test_a_disk_that_is_full_at_the_end(self):
        """The run prints its results and how to continue."""
        filler = self.small_disk()
        process = self.on_the_disk("--set", "checkpoint.on_failure=end")
        self.fill(filler)
        self.assertEqual(process.wait(20 * BUSY), 1, process.said())
        for text in ("No space left on device", "failed", "was not written", "to resume: trireme launch -n 2 train e.toml"):
            self.assertIn(text, process.said())
        # The unfinished checkpoint left a few kilobytes. If run.json fits there it is whole, and a larger file is named.
        if "run.json: cannot be written" not in process.said():
            self.assertRegex(process.said(), r"error: disk/o/(report\.html|trace\.json): cannot be written")
            self.assertEqual(self.json("disk", "o", "run.json")["rows"][0]["status"], "failed")
        os.remove(filler)
        self.trireme("checkpoints", "verify", "disk/o", data=False)

    def test_a_disk_that_has_no_room_for_a_checkpoint(self):
        """The run trains and is recorded, but its exit code shows that a checkpoint is missing."""
        self.small_disk("64k")
        out, err = self.trireme("train", "e.toml", "--out", "o", *CHECKPOINTS, "--set", "checkpoint.folder=" + self.path("disk"), code=1)
        self.assertIn("No space left on device", out + err)
        self.assertIn("the checkpoint after the last step was not written\n", out)
        self.assertEqual(self.json("o", "run.json")["rows"][0]["status"], "ok")

    def test_what_a_full_disk_says(self):
        """One line: where, what, why, what to do. No verb dies, and none ends as if its output were there."""
        filler = self.small_disk("64k")
        self.trireme("train", "e.toml", "--steps", "1", "--out", "o")
        self.fill(filler)
        full = ["cannot be written", "No space left on device", "free some space"]
        for arguments, file in ((["export", "o", "-o", "disk/w.pt"], "w.pt"), (["export", "o", "-o", "disk/w.onnx"], "w.onnx"),
                                (["export", "o", "-o", "disk/w.safetensors"], "w.safetensors"),
                                (["report", "o", "--out", "disk/r.html"], "r.html")):
            self.refused(*arguments, says=["disk/" + file, "(0 B of 64.0 KiB are free)", *full], data=False, code=1)
        self.refused("train", "e.toml", "--steps", "1", "--out", "disk/o", says=["disk/o/run.json", *full], code=1)
        for command in (["plan", "show", "mlp", "--sample", "1,28,28"], ["help", "train"]):
            with open("/dev/full", "w", encoding="utf-8") as out:
                ended = subprocess.run([support.PROGRAM, *command], stdout=out, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                       env=self.environment, timeout=60 * BUSY, check=False)
            self.assertEqual((ended.returncode, ended.stderr.count("\n")), (1, 1), ended.stderr)
            for words in ("trireme: standard output: ", *full):
                self.assertIn(words, ended.stderr)

    def test_a_frozen_agent(self):
        """The launcher on another machine is stopped while its ranks and its connection live, before and after Ctrl-C."""
        reach = self.write("reach", '#!/bin/sh\nshift\nsh -c "$*"\nexit $?\n')
        os.chmod(reach, 0o755)
        for ctrl_c in (False, True):
            folder = f"o{ctrl_c:d}"
            process = self.launch("--hosts", "127.0.0.1:1,127.0.0.2:2", "--ssh", "./reach", "train", "e.toml", "--out", folder, *LONG,
                                  *CHECKPOINTS)
            metrics = self.path(folder, "metrics.jsonl")
            self.wait_for(process, lambda metrics=metrics: os.path.exists(metrics) and text_of(metrics).count("\n") > 4)
            agents = [agent for ssh in children_of(process.pid) for agent in children_of(ssh)]
            ranks = {agent: children_of(agent) for agent in agents}
            self.assertEqual(sorted(map(len, ranks.values())), [1, 2])
            frozen = next(agent for agent in agents if len(ranks[agent]) == 2)
            time.sleep(1.5)  # it has sent a sign of life
            os.kill(frozen, signal.SIGSTOP)
            self.addCleanup(lambda pid=frozen: alive(pid) and os.kill(pid, signal.SIGKILL))
            if ctrl_c:
                process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(25 * BUSY), 1, process.said())
            self.gone([rank for group in ranks.values() for rank in group], 5)
            self.assertRegex(process.said(), r"trireme: host 127\.0\.0\.2 has shown no sign of life for 1\d s")

    def test_the_log_of_rank_0(self):
        """What rank 0 printed about the run's end and how to continue."""
        self.trireme("launch", "-n", "2", "train", "e.toml", "--set", "optimizer.learning_rate=1e38", *CHECKPOINTS, "--out", "o", code=1)
        log = text_of(self.path("o", "logs", "rank-0.log"))
        self.assertRegex(log, r"data: failed: diverged: .* is not finite")
        process = self.launch("-n", "2", "train", "e.toml", "--out", "i", *LONG, *CHECKPOINTS)
        self.training(process, "i")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10 * BUSY), 1, process.said())
        log = text_of(self.path("i", "logs", "rank-0.log"))
        for words in ("data: interrupted: stopped by the user", "to resume: trireme launch -n 2 train e.toml"):
            self.assertIn(words, log)

    def test_a_slow_rank_is_not_frozen(self):
        """Its only step takes longer than the time after which a rank counts as frozen."""
        self.write("slow.toml", support.EXPERIMENT + "\n[[cluster.worker.change]]\nat_step = 0\nworker = 1\nslower = 2000\n")
        out, _ = self.trireme("launch", "-n", "2", "train", "slow.toml", "--set", "model.options.hidden=1024",
                              "--set", "time_limit=0 s", "--out", "o", "--steps", "1", "--json", "o.json", seconds=600)
        row = self.json("o.json")["rows"][0]
        self.assertEqual(row["status"], "ok", out)
        self.assertGreater(row["curve"][-1]["seconds"], 6, "it was slow")

    def test_mpirun(self):
        mpirun = shutil.which("mpirun")
        if not mpirun:
            self.skipTest("no mpirun on this machine")
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_odls_base_sigkill_timeout="4")
        for frozen in (1, 0):
            folder = f"o{frozen}"
            log = self.path(f"mpirun-{frozen}.log")
            with open(log, "w", encoding="utf-8") as said:
                process = subprocess.Popen([mpirun, "--oversubscribe", "-n", "3", support.PROGRAM, "train", "e.toml",
                                            "--data-dir", self.data, "--out", folder, *LONG],
                                           cwd=self.folder, env=self.environment, stdout=said, stderr=said)
            process.said = lambda log=log: text_of(log)
            self.addCleanup(stop, process)
            metrics = self.path(folder, "metrics.jsonl")
            # signs of life are exchanged four times per second
            self.wait_for(process, lambda metrics=metrics: os.path.exists(metrics) and (json_lines(metrics) or [{}])[-1].get("seconds", 0) > 1)
            ranks = {int(environment_of(pid)["OMPI_COMM_WORLD_RANK"]): pid for pid in children_of(process.pid)}
            self.assertEqual(sorted(ranks), [0, 1, 2])
            self.whole_checkpoints_in(folder)
            self.freeze(ranks[frozen])
            self.gone([pid for rank, pid in ranks.items() if rank != frozen], 10)
            self.assertNotEqual(process.wait(10 * BUSY), 0, process.said())
            self.gone(ranks.values(), 1)
            said = " ".join(process.said().split())  # reasons in a table are wrapped over several lines
            self.assertIn(f"rank {frozen} {SILENT}", said)
            self.assertRegex(said, r"last sign of life was in step \d+")
            own = said.find(f"rank {frozen} failed: ")  # mpirun continues the frozen rank before it ends it
            self.assertTrue(own < 0 or own > said.index(f"rank {frozen} {SILENT}"), said)
            if frozen == 0:
                self.assertIn("newest complete checkpoint: after step 3", process.said())
                self.assertIn("to resume: start all ranks again with --resume", process.said())

    REGRESSION = """
name = "lines"
batch = 2
length = "8 steps"
evaluate_every = "8 steps"
precision = "fp32"
save_weights = false
devices = [2]
[model]
name = "mlp"
options.depth = 1
options.hidden = 8
[data]
name = "tensors"
train = ["data.npy", "target.npy"]
test = ["data.npy", "target.npy"]
[optimizer]
learning_rate = 1e-6
"""

    def as_ranks(self, values, *flags):
        """Two ranks, each in its own folder; for rank r the first feature of every sample is values[r]."""
        port = str(free_port())
        ranks = []
        for rank, value in enumerate(values):
            folder = self.path(f"rank-{rank}-{port}")
            os.makedirs(folder)
            with open(os.path.join(folder, "e.toml"), "w", encoding="utf-8") as f:
                f.write(self.REGRESSION)
            npy(os.path.join(folder, "data.npy"), (32, 200), ([value] + [1.0] * 199) * 32, "f4")
            npy(os.path.join(folder, "target.npy"), (32,), [0.5] * 32, "f4")
            variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            process = subprocess.Popen([support.PROGRAM, "train", "e.toml", "--out", "o", *flags], cwd=folder,
                                       env={**self.environment, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(stop, process)
            ranks.append(process)
        said = [process.communicate(timeout=60) for process in ranks]
        self.assertTrue(os.path.exists(self.path(f"rank-0-{port}", "o", "run.json")), said)
        row = self.json(f"rank-0-{port}", "o", "run.json")["rows"][0]
        return [process.returncode for process in ranks], said, row

    def test_what_is_not_finite_is_named(self):
        codes, said, row = self.as_ranks([1.0, 2.0])
        self.assertEqual((codes, row["status"]), ([0, 0], "ok"), said)
        codes, said, row = self.as_ranks([1.0, 1e30])
        self.assertEqual(row["status"], "failed", said)
        self.assertEqual(row["reason"], "diverged: the loss of step 1 is not finite on rank 1; lower the learning rate or set clip_norm")
        self.assertEqual(codes[0], 1, said)
        # the loss of this large value is finite, its gradient is not
        codes, said, row = self.as_ranks([1.0, 6e20])
        self.assertEqual(row["status"], "failed", said)
        self.assertRegex(row["reason"],
                         r"^diverged: rank 1's gradient of fc[12]\.(weight|bias) is not finite in step 1; "
                         r"lower the learning rate or set clip_norm$")
        self.assertEqual(codes[0], 1, said)

    def network(self, *command):
        return subprocess.run(["ip", *command], capture_output=True, text=True, check=False)

    def two_namespaces(self):
        """Names and addresses of two hosts connected by one link."""
        if os.geteuid() != 0:
            self.skipTest("network namespaces need root")
        if not shutil.which("ip"):
            self.skipTest("no ip (iproute2) on this machine")
        names = [f"trireme-{os.getpid()}-{side}" for side in "ab"]
        for name in names:
            made = self.network("netns", "add", name)
            if made.returncode != 0:
                self.skipTest("no network namespace can be made: " + made.stderr.strip())
            self.addCleanup(self.network, "netns", "del", name)
        addresses = [f"10.213.{os.getpid() % 250}.{n}" for n in (1, 2)]
        made = self.network("link", "add", "link0", "netns", names[0], "type", "veth", "peer", "name", "link0", "netns", names[1])
        if made.returncode != 0:
            self.skipTest("no virtual link can be made: " + made.stderr.strip())
        for name, address in zip(names, addresses, strict=True):
            for command in (["addr", "add", address + "/24", "dev", "link0"], ["link", "set", "link0", "up"], ["link", "set", "lo", "up"]):
                self.assertEqual(self.network("-n", name, *command).returncode, 0, command)
        return names, addresses

    def test_a_cut_link(self):
        names, addresses = self.two_namespaces()
        reach = self.write("reach", "#!/bin/sh\ncase $1 in\n" +
                           "".join(f"{address}) where={name};;\n" for name, address in zip(names, addresses, strict=True)) +
                           "esac\nshift\nexec ip netns exec $where sh -c \"$*\"\n")
        os.chmod(reach, 0o755)
        process = self.launch("--hosts", f"{addresses[0]}:1,{addresses[1]}:2", "--ssh", "./reach", "train", "e.toml", "--out", "o", *LONG)
        metrics = self.path("o", "metrics.jsonl")
        self.wait_for(process, lambda: os.path.exists(metrics) and text_of(metrics).count("\n") > 4)
        agents = children_of(process.pid)
        ranks = [rank for agent in agents for rank in children_of(agent)]
        self.assertEqual(len(ranks), 3)
        time.sleep(1)  # then signs of life come from a step
        self.assertEqual(self.network("-n", names[0], "link", "set", "link0", "down").returncode, 0)
        self.gone(ranks, 10)
        self.assertNotEqual(process.wait(10 * BUSY), 0, process.said())
        self.gone(agents, 1)
        # each side reports which rank is silent and its own place
        self.assertRegex(process.said(), rf"rank [12]: rank 0 {SILENT}.*this rank is in step \d+")
        reason = self.json("o", "run.json")["rows"][0]["reason"]
        self.assertRegex(
            reason, rf"rank 0: rank [12] {SILENT}: its process is frozen, or the network in between is cut; its last sign of life was in step \d+")


def environment_of(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
        return dict(line.split("=", 1) for line in f.read().split("\0") if "=" in line)


