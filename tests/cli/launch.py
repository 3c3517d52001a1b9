"""Workers that are processes: trireme launch, and the environments of other launchers."""
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import support
from support import BUSY, CliTest, alive, children_of, rank_of, stop, text_of, wait_until

LONG = ["--set", "length=100000 steps", "--set", "evaluate_every=100000 steps"]


def free_port():
    """A free port from a range that the system does not give to programs that ask for any port."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def listens_everywhere(pid):
    sockets = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass  # the file was closed meanwhile
    for table in ("tcp", "tcp6"):
        for line in text_of(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            place, state, inode = (line.split()[k] for k in (1, 3, 9))
            if state == "0A" and set(place.split(":")[0]) == {"0"} and f"socket:[{inode}]" in sockets:
                return True
    return False


class LaunchTest(CliTest):
    """Common base of tests of launched processes."""

    def launch(self, *arguments):
        """Starts a process; its outputs go to files, which a test can read while the process runs."""
        name = self.path(f"launch-{len(os.listdir(self.folder))}.log")
        with open(name, "w", encoding="utf-8") as log, open(name + ".out", "w", encoding="utf-8") as out:
            process = subprocess.Popen([support.PROGRAM, "launch", *arguments, "--data-dir", self.data], cwd=self.folder,
                                       env=self.environment, stdout=out, stderr=log)
        process.said, process.printed = lambda: text_of(name), lambda: text_of(name + ".out")
        self.addCleanup(stop, process)
        return process

    def curve(self, name):
        row = self.json(name)["rows"][0]
        self.assertEqual(row["status"], "ok", row["reason"])
        return [point["loss"] for point in row["curve"]], [point["loss"] for point in row["evaluations"]]

    def weights(self, *names):
        with open(self.path(*names, "weights.safetensors"), "rb") as f:
            return f.read()

    def in_threads(self, name, plan, devices):
        self.trireme("train", "e.toml", "--plan", plan, "--devices", str(devices), "--set", "replicas=private", "--out", name,
                     "--json", f"{name}.json")

    def training(self, process, folder="o"):
        """The launcher's ranks; waits until they train."""
        metrics = self.path(folder, "metrics.jsonl")
        self.wait_for(process, lambda: os.path.exists(metrics) and text_of(metrics).count("\n") > 4)
        return {rank_of(pid): pid for pid in children_of(process.pid)}

    def wait_for(self, process, condition):
        wait_until(lambda: condition() or (process.poll() is not None and self.fail(process.said())), 60)

    def gone(self, pids, seconds):
        wait_until(lambda: not any(alive(pid) for pid in pids), seconds)

    def shell_instead_of_ssh(self):
        file = self.write("reach", '#!/bin/sh\necho "$1" >> hosts\nshift\nexec sh -c "$*"\n')
        os.chmod(file, os.stat(file).st_mode | stat.S_IXUSR)
        return "./reach"


class Launch(LaunchTest):
    def test_processes_train_what_threads_do(self):
        for plan, devices in (("data", 2), ("data=2,tensor=2", 4)):
            self.in_threads(f"t{devices}", plan, devices)
            out, err = self.trireme("launch", "-n", str(devices), "train", "e.toml", "--plan", plan, "--out", f"p{devices}",
                                    "--json", f"p{devices}.json")
            self.assertEqual(self.curve(f"t{devices}.json"), self.curve(f"p{devices}.json"), plan)
            self.assertEqual(self.weights(f"t{devices}"), self.weights(f"p{devices}"), plan)
            row = self.json(f"p{devices}.json")["rows"][0]
            self.assertEqual((row["backend"], row["devices"], len(row["memory_bytes"])), ("gloo", devices, devices))
            self.assertEqual(self.json(f"t{devices}.json")["rows"][0]["backend"], "local")
            self.assertIn(f"{devices} processes on 1 machine", out)
            self.assertEqual(sorted(os.listdir(self.path(f"p{devices}", "logs"))), [f"rank-{r}.log" for r in range(devices)])
            self.assertIn("rank 1 has finished", text_of(self.path(f"p{devices}", "logs", "rank-1.log")))
            self.assertNotIn("rank 1", err)

    def test_replicas_that_agree_may_be_processes(self):
        """Each process is a replica; the workers of its inner plan are threads."""
        for k, (policy, devices) in enumerate((("local-sgd,every=2 steps", 2), ("diloco,every_steps=3", 2), ("fedavg,rounds=2", 2),
                                               ("gossip,every=2 steps,compression=topk:0.1", 2),
                                               ("local-sgd,every=2 steps,inner=pipeline=2", 4),
                                               ("local-sgd,every=3 steps,inner=tensor=2", 4),
                                               ("local-sgd,every=3 steps,inner=data=2,sharding=zero3", 4))):
            self.trireme("train", "e.toml", "--plan", policy, "--devices", str(devices), "--out", f"t{k}")
            self.trireme("launch", "-n", "2", "train", "e.toml", "--plan", os.path.join(f"t{k}", "plan.json"), "--out", f"p{k}")
            threads, processes = (self.json(f"{kind}{k}", "run.json")["rows"][0] for kind in "tp")
            self.assertEqual(processes["status"], "ok", (policy, processes["reason"]))
            self.assertEqual((processes["backend"], processes["devices"], len(processes["memory_bytes"])), ("gloo", devices, devices))
            self.assertEqual(self.weights(f"t{k}"), self.weights(f"p{k}"), policy)
            self.assertEqual([e["loss"] for e in threads["evaluations"]], [e["loss"] for e in processes["evaluations"]], policy)
            self.assertEqual(threads["replicas"]["bytes_sent"], processes["replicas"]["bytes_sent"], policy)
            self.assertEqual(len(processes["curve"]), len(threads["curve"]), policy)

    def test_a_replica_may_wait_long_for_another(self):
        """Rank 0 is also the server; its threads wait for messages of rank 1, and rank 1 visits while rank 0 waits for it."""
        for slow, policy in ((0, "local-sgd,every=2 steps"), (1, "easgd,period=1")):
            self.write("slow.toml", support.EXPERIMENT + f"\n[[cluster.worker.change]]\nat_step = 0\nworker = {slow}\nslower = 2000\n")
            self.trireme("launch", "-n", "2", "train", "slow.toml", "--plan", policy, "--set", "optimizer.momentum=0", "--set", "time_limit=0 s",
                         "--steps", "3", "--json", "row.json", seconds=300)
            row = self.json("row.json")["rows"][0]
            self.assertEqual(row["status"], "ok", row["reason"])
            self.assertGreater(row["curve"][-1]["seconds"], 2, "else nothing waited for long")

    def test_policies_without_waiting_run_in_processes(self):
        for k, policy in enumerate(("async-average,shards=2", "partial,quorum=1", "easgd,period=2", "eamsgd,period=2", "downpour,shards=2",
                                    "shat,period=2", "gossip,every=2 steps", "streaming-diloco,every_steps=4,fragments=2", "fedprox,rounds=2", "fedadam,rounds=2")):
            self.trireme("launch", "-n", "2", "train", "e.toml", "--plan", policy, "--set", "optimizer.momentum=0", "--json", f"{k}.json")
            row = self.json(f"{k}.json")["rows"][0]
            self.assertEqual((row["status"], row["replicas"]["count"]), ("ok", 2), (policy, row["reason"]))
            self.assertGreaterEqual(len(row["curve"]), 6, policy)

    def test_a_planners_plan_has_all_processes(self):
        out, _ = self.trireme("launch", "-n", "2", "train", "e.toml", "--plan", "exact", "--json", "p.json", "--profile", "profile.json")
        row = self.json("p.json")["rows"][0]
        self.assertEqual(row["devices"], 2, "alone it would be faster")
        tried = re.search(r"trial steps: (.*?) took .* the first is chosen", out)
        # The plainest plan of all processes is always a candidate. Nothing is tried where it is predicted to be the
        # fastest by far, as with slow messages.
        self.assertEqual(tried.group(1) if tried else "data 2", row["plan"], out)

    def rank(self, variables, *arguments):
        """Starts one of several processes, like another launcher."""
        process = subprocess.Popen([support.PROGRAM, "train", "e.toml", "--data-dir", self.data, *arguments], cwd=self.folder,
                                   env={**self.environment, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(stop, process)
        return process

    def test_environments_of_other_launchers(self):
        """Each environment without any flag; the test starts the ranks like a launcher."""
        self.in_threads("t", "data", 2)
        port = str(free_port())
        kinds = {
            "torchrun": lambda r: {"RANK": r, "WORLD_SIZE": "2", "LOCAL_RANK": r, "MASTER_ADDR": "127.0.0.1",
                                   "MASTER_PORT": port},
            "mpi": lambda r: {"OMPI_COMM_WORLD_RANK": r, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": r,
                              "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": str(os.getpid())},
            "slurm": lambda r: {"SLURM_PROCID": r, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1",
                                "SLURM_JOB_ID": str(os.getpid())},
        }
        for kind, variables in kinds.items():
            with self.subTest(kind):
                ranks = [self.rank(variables(str(r)), "--out", kind, "--json", f"{kind}.json") for r in (0, 1)]
                said = ["".join(rank.communicate(timeout=60)) for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
                self.assertEqual(self.curve(f"{kind}.json"), self.curve("t.json"))
                self.assertEqual(said[1], "", "ranks other than 0 are quiet")
                ranks = [self.rank(variables(str(r)), "--plan", "easgd,period=2", "--json", f"{kind}-easgd.json") for r in (0, 1)]
                said = ["".join(rank.communicate(timeout=60)) for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
                self.assertEqual(self.json(f"{kind}-easgd.json")["rows"][0]["replicas"]["count"], 2)

    def test_one_rank(self):
        """Another launcher may start a single process, with any backend."""
        self.in_threads("t", "data", 1)
        rank = self.rank({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())},
                         "--backend", "gloo", "--json", "g.json")
        said = rank.communicate(timeout=60)
        self.assertEqual(rank.returncode, 0, said)
        self.assertEqual(self.curve("g.json"), self.curve("t.json"))
        if shutil.which("mpirun"):
            out, err = (process := self.mpirun("--backend", "mpi", "--json", "m.json", processes=1)).communicate(timeout=60)
            if "has no MPI" not in err:
                self.assertEqual(process.returncode, 0, out + err)
                self.assertEqual(self.curve("m.json"), self.curve("t.json"))
                self.assertEqual(self.json("m.json")["rows"][0]["backend"], "mpi")

    def test_what_all_ranks_would_say_is_said_once(self):
        open_mpi = [{"OMPI_COMM_WORLD_RANK": str(r), "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_RANK": str(r),
                     "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
                    for r in range(3)]
        slurm = [{"SLURM_PROCID": str(r), "SLURM_STEP_NUM_TASKS": "3", "SLURM_LOCALID": str(r), "SLURM_STEP_NUM_NODES": "1",
                  "SLURM_JOB_ID": "1"}
                 for r in range(3)]
        for variables in (open_mpi, slurm):
            for flags, more, says in ((["--nosuch"], {}, "--nosuch"), (["--set="], {}, "--set"),
                                      ([], {"TRIREME_LOG": "loud"}, "TRIREME_LOG"), ([], {"TRIREME_INTERFACE": "nosuch0"}, "nosuch0")):
                ranks = [self.rank({**one, **more}, *flags) for one in variables]
                said = [rank.communicate(timeout=60)[1] for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [2, 2, 2], said)
                self.assertEqual([text.count("\n") for text in said], [1, 0, 0], said)
                self.assertIn(says, said[0])
        # a rank reports an error that only it has
        said = self.rank({**open_mpi[1], "OMPI_COMM_WORLD_RANK": "7"}).communicate(timeout=60)[1]
        self.assertIn("OMPI_COMM_WORLD_RANK", said)

    def test_ranks_that_differ(self):
        """Rank 0 prints one line that names the rank and the difference; no process is left behind."""
        port = str(free_port())
        cases = ((["--set", "batch=16"], ["rank 1", "batch", "32 on rank 0", "16 on rank 1"]), (["--seed", "9"], ["rank 1", "seed"]),
                 (["--set", "modle.name=mlp"], ["rank 1", "modle"]))
        for flags, says in cases:
            ranks = [self.rank({"RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, *(flags if r else []))
                     for r in (0, 1)]
            said = [rank.communicate(timeout=60)[1] for rank in ranks]
            self.assertEqual([rank.returncode for rank in ranks], [2, 2], said)
            self.assertEqual((said[0].count("\n"), said[1]), (1, ""), said)
            for words in says:
                self.assertIn(words, said[0])
        # a quoted name that is not UTF-8
        ranks = [self.rank({"RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, "--resume", "caf\udce9")
                 for r in (0, 1)]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual(([rank.returncode for rank in ranks], said[1]), ([2, 2], ""), said)
        self.assertIn("rank 0: caf\ufffd", said[0])
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_two_processes_with_one_rank_end_all(self):
        port = str(free_port())
        ranks = [self.rank({"RANK": rank, "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in "011"]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]  # not the 300 s for which a rank waits for others
        self.assertEqual([rank.returncode for rank in ranks], [1, 1, 1], said)
        self.assertIn("two processes have rank 1", said[0])
        self.assertEqual(sum("another process has the same rank" in text for text in said[1:]), 1, said)

    def test_two_processes_with_rank_0_end_all(self):
        """They cannot both listen at the port."""
        port = str(free_port())
        ranks = [self.rank({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for _ in range(2)]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [1, 1], said)
        for words in ("another process has the same rank", "two processes have rank 0"):
            self.assertEqual(sum(words in text for text in said), 1, said)

    def test_a_killed_rank_ends_all(self):
        process = self.launch("-n", "3", "train", "e.toml", "--out", "o", *LONG)
        ranks = self.training(process)
        os.kill(ranks[2], signal.SIGKILL)
        self.assertEqual(process.wait(10 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        last = process.said().splitlines()[-1]
        self.assertRegex(last, r"^trireme: rank 2 was ended by signal 9 .*; its log: o/logs/rank-2\.log$")
        row = self.json("o", "run.json")["rows"][0]
        self.assertEqual(row["status"], "failed")
        self.assertRegex(row["reason"], r"^rank 2 was ended by signal 9 \(Killed\).*rank [01], .*rank 2 is gone")
        self.assertNotIn("gloo/transport", row["reason"])
        self.assertIn("rank 2 was ended by signal 9", text_of(self.path("o", "report.html")))
        self.trireme("train", "e.toml", "--steps", "1", "--out", "threads")
        cores = [self.json(folder, "run.json")["machine"].split(",")[0] for folder in ("o", "threads")]
        self.assertEqual(*cores)

    def test_rank_0_killed(self):
        process = self.launch("-n", "2", "train", "e.toml", "--out", "o", *LONG)
        ranks = self.training(process)
        os.kill(ranks[0], signal.SIGKILL)
        self.assertEqual(process.wait(10 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        self.assertTrue(process.said().splitlines()[-1].startswith("trireme: rank 0 was ended by signal 9"), process.said())

    def test_ctrl_c_and_the_launchers_death_end_all_ranks(self):
        process = self.launch("-n", "2", "train", "e.toml", "--out", "o", *LONG)
        ranks = self.training(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(10 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        self.assertEqual(self.json("o", "run.json")["rows"][0]["status"], "interrupted")
        self.assertTrue(os.path.exists(self.path("o", "weights.safetensors")))
        process = self.launch("-n", "2", "train", "e.toml", "--out", "k", *LONG)
        ranks = self.training(process, "k")
        process.kill()
        self.gone(ranks.values(), 5)

    def test_an_interrupt_of_rank_0_while_it_plans_is_named(self):
        """It measures layers, which takes longer than the test waits."""
        self.write("conv.toml", support.EXPERIMENT.replace('"mlp"\noptions.hidden = 32', '"cifar-resnet18"').replace("batch = 32", "batch = 256"))
        process = self.launch("-n", "2", "train", "conv.toml", "--plan", "pipeline", "--out", "o")
        self.wait_for(process, lambda: "planning" in process.said() + process.printed())
        ranks = {rank_of(pid): pid for pid in children_of(process.pid)}
        os.kill(ranks[0], signal.SIGINT)
        self.assertEqual(process.wait(3 * BUSY), 1, process.said())
        self.assertEqual(process.said().splitlines()[-1], "trireme: rank 0 was interrupted before the training began")
        self.gone(ranks.values(), 1)

    def test_ranks_are_bound_where_there_is_a_core_for_each(self):
        cores = os.sched_getaffinity(0)
        if len(cores) < 2:
            self.skipTest("this machine has one core")
        for processes in (2, len(cores) + 1):
            process = self.launch("-n", str(processes), "train", "e.toml", "--out", f"b{processes}", *LONG)
            ranks = self.training(process, f"b{processes}")
            bound = [os.sched_getaffinity(pid) for pid in ranks.values()]
            stop(process)
            self.assertEqual(sorted(core for own in bound for core in own), sorted([*cores] * (1 if processes == 2 else processes)))

    def test_hosts(self):
        """Two "machines" that are both this one, reached by a shell in place of ssh."""
        self.in_threads("t", "data", 3)
        hosts = ["--hosts", "127.0.0.1:1,127.0.0.2:2", "--ssh", self.shell_instead_of_ssh()]
        out, _ = self.trireme("launch", *hosts, "train", "e.toml", "--out", "p", "--json", "p.json")
        self.assertEqual(self.curve("p.json"), self.curve("t.json"))
        self.assertEqual(sorted(text_of(self.path("hosts")).split()), ["127.0.0.1", "127.0.0.2"])
        self.assertIn("3 processes", out)
        process = self.launch(*hosts, "train", "e.toml", "--out", "o", *LONG)
        self.wait_for(process, lambda: os.path.exists(self.path("o", "metrics.jsonl")))
        agents = children_of(process.pid)
        ranks = [rank for agent in agents for rank in children_of(agent)]
        self.assertEqual(len(ranks), 3)
        victim = next(pid for pid in ranks if rank_of(pid) == 2)
        os.kill(victim, signal.SIGKILL)
        self.assertNotEqual(process.wait(12 * BUSY), 0, process.said())
        self.gone(agents + ranks, 1)
        self.assertIn("rank 2 was ended by signal 9", process.said())

    def test_scripts(self):
        words = ["train", "e.toml", "--plan", "data", "--set", "name=a b"]
        cases = {("slurm", "-n", "4"): ["#SBATCH --ntasks=4", "srun --kill-on-bad-exit=1 trireme train e.toml --plan data --set 'name=a b'",
                                            "export TRIREME_TOKEN="],
                 ("slurm", "--hosts", "a:2,b:2"): ["--nodes=2", "--ntasks-per-node=2", "--nodelist=a,b\n"],
                 ("slurm", "--hosts", "me@a:1,me@a:1,b:2"): ["--nodes=2", "--ntasks-per-node=2", "--nodelist=a,b\n"],
                 ("mpi", "--hosts", "a:2,b:1"): ["mpirun -n 3 --host a:2,b:1 -x MASTER_ADDR=a"],
                 ("mpi", "--hosts", "me@a:2,b:1", "--port", "1234"): ["--host a:2,b:1 -x MASTER_ADDR=a -x MASTER_PORT=1234"],
                 ("mpi", "-n", "4", "--port", "1234", "--no-bind"): ["export MASTER_PORT=1234\n", "export TRIREME_TOKEN=",
                                                                    "\nmpirun -n 4 --bind-to none trireme train"],
                 ("slurm", "-n", "4", "--port", "1234", "--no-bind"): ["export MASTER_PORT=1234\n",
                                                                      "srun --kill-on-bad-exit=1 --cpu-bind=none trireme"],
                 ("kubernetes", "-n", "4", "--port", "1234"): ['name: MASTER_PORT\n              value: "1234"'],
                 ("torchrun", "-n", "4"): ["torchrun --standalone --no_python --nproc_per_node=4 trireme train"],
                 ("torchrun", "--hosts", "a:2,b:2", "--interface", "ib0"): ["--nnodes=2", "--rdzv_endpoint=a:29500",
                                                                            "export TRIREME_INTERFACE=ib0", "export TRIREME_TOKEN"],
                 ("kubernetes", "-n", "4"): ["completions: 4", "kind: Service", '- "name=a b"', "job-completion-index"]}
        out, _ = self.trireme("launch", "--print", "slurm", "-n", "4", *words, "--backend", "mpi", data=False)
        self.assertIn("srun --kill-on-bad-exit=1 --mpi=pmix trireme train", out)
        for kind, says in (("slurm", "#SBATCH --gpus-per-task=1\n"), ("kubernetes", "            limits:\n              nvidia.com/gpu: 1\n")):
            for gpus in (["--device", "cuda"], ["--device=cuda"], []):
                out, _ = self.trireme("launch", "--print", kind, "-n", "4", *words, *gpus, data=False)
                self.assertEqual(says in out, bool(gpus), (kind, gpus))
        for (kind, *flags), says in cases.items():
            out, _ = self.trireme("launch", "--print", kind, *flags, *words, data=False)
            for text in says:
                self.assertIn(text, out, (kind, flags))
            if kind != "kubernetes":
                subprocess.run(["bash", "-n"], input=out, text=True, check=True)
        _, err = self.trireme("launch", "--print", "slurm", "-n", "4", *words, data=False)
        self.assertEqual(err, "")
        out, err = self.trireme("launch", "--print", "slurm", "-n", "4", "train", "there.toml", "--plan", "p.json", data=False)
        self.assertEqual(err, "trireme: not checked, because there is no such file here: there.toml, p.json\n")
        self.assertIn("trireme train there.toml --plan p.json\n", out)
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_refuses(self):
        self.in_threads("t", "data", 2)
        os.rename(self.path("t", "plan.json"), self.path("two.json"))
        self.all_refused([
            (["launch", "-n", "2", "--interface", "nosuch0", "train", "e.toml"], ["--interface", "nosuch0", "lo (127.0.0.1"]),
            (["launch", "-n", "2", "train", "e.toml", "--devices", "3"], ["--devices", "3", "2 processes"]),
            (["launch", "train", "e.toml"], ["-n 4"]),
            (["launch", "-n", "1", "train", "e.toml"], ["trireme train"]),
            (["launch", "-n", "3", "--hosts", "a:2,b:2", "train", "e.toml"], ["-n", "--hosts has 4"]),
            (["launch", "--hosts", "a:x", "train", "e.toml"], ["--hosts", "a:x"]),
            (["launch", "--hosts", "-oProxyCommand=x:2", "train", "e.toml"], ["--hosts"]),
            (["launch", "--hosts", "a:2147483647,b:2147483647", "train", "e.toml"], ["--hosts", "more processes"]),
            (["launch", "train", "e.toml", "-n", "2"], ["-n is for trireme launch", "before train"]),
            (["launch", "-n", "0", "train", "e.toml"], ["-n", "trireme launch --help"]),
            (["launch", "-n", "2", "verify", "e.toml"], ["verify", "train and compare only"]),
            (["launch", "-n", "2", "--restarts", "2", "--print", "mpi", "train", "e.toml"], ["--restarts", "only trireme launch"]),
            (["launch", "-n", "2", "--token-file", "t", "--print", "mpi", "train", "e.toml"], ["--token-file", "TRIREME_TOKEN"]),
            (["launch", "-n", "2", "--ssh", "rsh", "--print", "slurm", "train", "e.toml"], ["--ssh", "nothing through ssh"]),
            (["launch", "-n", "2", "--port", "1234", "--print", "torchrun", "train", "e.toml"], ["--port", "standalone"]),
            (["launch", "-n", "2", "--port", "1234", "--print", "mpi", "train", "e.toml", "--backend", "mpi"], ["--port", "rendezvous"]),
            (["launch", "-n", "2", "--print", "mpi", "train", "e.toml", "--set", "elastic=true", "--set", "checkpoint.every=2 steps"],
             ["elastic", "other launchers"]),
            (["launch", "-n", "2", "--print", "mpi", "train", "there.toml", "--set", "elastic=true"], ["elastic", "other launchers"]),
            (["launch", "-n", "2", "--print", "slurm", "train", "there.toml", "--plan", "datta"], ["--plan", "datta", 'did you mean "data"?']),
            (["launch", "-n", "2", "--print", "slurm", "train", "e.toml", "--set", "bacth=4"], ["bacth"]),
            (["launch", "-n", "2", "train", "e.toml", "--plann", "data"], ["--plann", "unknown flag", "trireme launch train --help"]),
            (["launch", "-n", "2", "--print", "pbs", "train", "e.toml"], ["pbs"]),
            (["launch", "-n", "2", "train", "e.toml", "--backend", "mpi"], ["--backend", "mpirun"]),
            (["launch", "-n", "2", "--print", "torchrun", "train", "e.toml", "--backend", "mpi"], ["--backend", "torchrun"]),
            (["launch", "-n", "2", "--interface", "lo", "--print", "mpi", "train", "e.toml", "--backend", "mpi"],
             ["--interface", "btl_tcp_if_include"]),
            (["train", "e.toml", "--backend", "mpi"], ["--backend", "threads", "mpirun -n 4"]),
            (["train", "e.toml", "--backend", "gloo"], ["--backend", "threads", "trireme launch"]),
            (["train", "e.toml", "--backend", "pvm"], ["--backend", "pvm"]),
            (["launch", "-n", "2", "train", "nowhere.toml"], ["nowhere.toml"]),
            (["launch", "-n", "2", "train", "e.toml", "--plan", "hogwild", "--set", "optimizer.momentum=0"],
             ["hogwild", "replicas share memory"]),
            (["launch", "-n", "2", "train", "e.toml", "--plan", "local-sgd", "--set", "update.virtual.step_seconds=1 s"],
             ["update.virtual", "processes run in real time"]),
            (["launch", "-n", "3", "train", "e.toml", "--plan", "two.json"], ["two.json", "2 workers", "3 processes"]),
            (["launch", "-n", "2", "train", "e.toml", "--set", "adapt=true"], ["adapt"]),
        ])
        self.refused("launch", "--ssh", "false", "--hosts", "x:1,y:1", "train", "e.toml", says=["trireme: host ", " ended with exit code 1"], code=1)
        self.refused("launch", "--ssh", "nosuch", "--hosts", "x:1,y:1", "train", "e.toml",
                     says=["trireme: host ", '"nosuch" is not a program on this machine'], code=127)
        self.environment.update(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29777", TRIREME_INTERFACE="nosuch0")
        self.refused("train", "e.toml", says=["TRIREME_INTERFACE", "nosuch0", "lo (127.0.0.1"])
        self.refused("train", "e.toml", "--backend", "mpi", says=["TRIREME_INTERFACE", "MPI chooses"])
        self.environment.pop("TRIREME_INTERFACE")
        for verb in (["compare", "e.toml"], ["profile", "e.toml"], ["verify", "e.toml"], ["measure-epochs", "e.toml", "--batches", "8"],
                     ["serve", "e.toml", "--plan", "fedavg,rounds=1", "--clients", "1"]):
            self.refused(*verb, says=["trireme " + verb[0], "2 processes", "torchrun's variables", "start it once"])
        if shutil.which("mpirun"):
            self.refused("train", "e.toml", "--backend", "mpi", says=["was not started by MPI", "mpirun"])

    def mpirun(self, *arguments, processes=4):
        mpirun = shutil.which("mpirun")
        if not mpirun:
            self.skipTest("no mpirun on this machine")
        environment = {**self.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_odls_base_sigkill_timeout": "4"}
        command = [mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(processes), support.PROGRAM, "train", "e.toml",
                   "--data-dir", self.data, *arguments]
        process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(stop, process)
        return process

    def test_mpirun(self):
        self.in_threads("t", "data", 4)
        for backend in ("gloo", "mpi"):
            out, err = (process := self.mpirun("--backend", backend, "--out", backend,
                                               "--json", f"{backend}.json")).communicate(timeout=120)
            if backend == "mpi" and "has no MPI" in err:
                self.skipTest("this build has no MPI")
            self.assertEqual(process.returncode, 0, out + err)
            self.assertEqual(self.curve(f"{backend}.json"), self.curve("t.json"), backend)
            self.assertEqual(self.weights(backend), self.weights("t"), backend)
            self.assertEqual(self.json(f"{backend}.json")["rows"][0]["backend"], backend)
            self.assertIn(f"4 processes on 1 machine, backend {backend}", out)
            out, err = (process := self.mpirun("--backend", backend, "--plan", "downpour", "--set", "optimizer.momentum=0",
                                               "--json", "d.json")).communicate(timeout=120)
            self.assertEqual(process.returncode, 0, out + err)
            self.assertEqual(self.json("d.json")["rows"][0]["replicas"]["count"], 4)

    def training_over_mpi(self, *arguments):
        process = self.mpirun("--backend", "mpi", "--out", "o", *LONG, *arguments)
        metrics = self.path("o", "metrics.jsonl")
        wait_until(lambda: (os.path.exists(metrics) and text_of(metrics).count("\n") > 4) or process.poll() is not None, 60)
        if process.poll() is not None:
            said = "".join(process.communicate())
            self.assertIn("has no MPI", said)
            self.skipTest("this build has no MPI")
        return process, {int(text_of_environment(pid)["OMPI_COMM_WORLD_RANK"]): pid for pid in children_of(process.pid)}

    def test_a_frozen_rank_ends_an_mpi_run(self):
        for frozen in (2, 0):
            process, ranks = self.training_over_mpi()
            for rank, pid in ranks.items():
                self.assertFalse(listens_everywhere(pid), f"rank {rank} of a run on one machine")
            os.kill(ranks[frozen], signal.SIGSTOP)
            at = time.monotonic()
            for rank, pid in ranks.items():
                if rank != frozen:
                    wait_until(lambda: not alive(pid), 20)
            self.assertLess(time.monotonic() - at, 14 * BUSY, "some 9 s on an idle machine")
            out, err = process.communicate(timeout=15 * BUSY)
            self.assertNotEqual(process.returncode, 0)
            self.gone(ranks.values(), 1)
            self.assertIn(f"rank {frozen} has shown no sign of life for 5 s", " ".join((out + err).split()))
            shutil.rmtree(self.path("o"))

    def test_a_killed_rank_ends_an_mpi_run(self):
        process, ranks = self.training_over_mpi("--set", "checkpoint.every=1 steps")
        os.kill(ranks[2], signal.SIGKILL)
        out, err = process.communicate(timeout=15 * BUSY)
        self.assertNotEqual(process.returncode, 0)
        self.gone(ranks.values(), 1)
        self.assertIn("signal 9", out + err)
        self.assertIn("rank 2 is gone: its process has ended", " ".join((out + err).split()))
        self.assertIn("to resume: start all ranks again with --resume o", out)
        self.assertIn(self.json("o", "run.json")["rows"][0]["status"], ("failed", "interrupted"),
                      "mpirun asks rank 0 to end, which still writes its folder")

    def test_torchrun(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed.run"], capture_output=True).returncode != 0:
            self.skipTest("no torchrun on this machine")
        self.in_threads("t", "data", 2)
        # the last two flags are given because torch 1.13's defaults fail on Python 3.11
        done = subprocess.run(["/usr/bin/python3", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--no_python",
                               "--redirects=1", "--tee=1", support.PROGRAM, "train", "e.toml", "--data-dir", self.data, "--out", "p",
                               "--json", "p.json"],
                              cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.curve("p.json"), self.curve("t.json"))


def text_of_environment(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
        return dict(line.split("=", 1) for line in f.read().split("\0") if "=" in line)
