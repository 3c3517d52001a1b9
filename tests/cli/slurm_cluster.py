"""A Slurm cluster of two nodes on this machine, removed with its folder: munged, slurmctld and a slurmd per node, all in their own mount
namespace, where /etc/hosts has the nodes' names. Needs root. Run by hand, slurm_cluster.py COMMAND... runs the command in the cluster."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("munged", "munge", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "scancel")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
NODES = {"trireme-n1": "127.0.0.1", "trireme-n2": "127.0.0.2"}

CONFIGURATION = """
ClusterName=trireme
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CryptoType=crypto/munge
SlurmctldPort={control_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=30
KillWait=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing():
    """Returns why a cluster is not possible here; empty if it is."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if absent:
        return f"no {', '.join(absent)} on this machine (Debian: slurm-wlm, munge)"
    if os.geteuid() != 0:
        return "a Slurm cluster needs root"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "this machine allows no mount namespaces"
    return ""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class SlurmCluster:
    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="trireme-slurm-")
        self.folder = self.temporary.name
        os.chmod(self.folder, 0o755)  # munge checks the modes of its folders
        self.daemons = []
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": self.path("slurm.conf")}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that __exit__ runs
        try:
            self.configure()
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def configure(self):
        control, *ports = free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = "\n".join(f"NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=2 State=UNKNOWN"
                          for (name, address), port in zip(NODES.items(), ports))
        with open(self.path("slurm.conf"), "w", encoding="utf-8") as f:
            f.write(CONFIGURATION.format(host=host, folder=self.folder, control_port=control, nodes=nodes))
        with open("/etc/hosts", encoding="utf-8") as f:
            own = f.read()
        with open(self.path("hosts"), "w", encoding="utf-8") as f:
            f.write(own + "".join(f"{address} {name}\n" for name, address in NODES.items()))
        for name in ("state", "pmix", *(f"{kind}.{node}" for node in NODES for kind in ("spool", "pmix"))):
            os.mkdir(self.path(name))
        with open(self.path("mpi.conf"), "w", encoding="utf-8") as f:
            f.write(f"PMIxCliTmpDirBase={self.path('pmix')}\n")
        with open(self.path("munge.key"), "wb") as f:
            f.write(os.urandom(1024))
        os.chmod(self.path("munge.key"), 0o400)

    def inside(self, command, node=None):
        """A command in the cluster's mount namespace. Each node has its own folder for PMIx, which two nodes on one machine would share."""
        own = f"mount --bind {self.path('pmix.' + node)} {self.path('pmix')} && " if node else ""
        mounts = f'mount --bind "$0" /etc/hosts && {own}exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mounts, self.path("hosts"), *command]

    def daemon(self, *command, node=None):
        with open(self.path(os.path.basename(command[0]) + ".out"), "ab") as out:
            self.daemons.append(subprocess.Popen(self.inside(command, node), env=self.environment, stdin=subprocess.DEVNULL, stdout=out,
                                                 stderr=out, start_new_session=True))

    def start(self):
        self.daemon("munged", "--foreground", "--force", "--num-threads=2", f"--key-file={self.path('munge.key')}",
                    f"--socket={self.path('munge.socket')}", f"--pid-file={self.path('munge.pid')}", f"--log-file={self.path('munge.log')}",
                    f"--seed-file={self.path('munge.seed')}")
        self.wait_until(lambda: os.path.exists(self.path("munge.socket")), "munged")
        self.daemon("slurmctld", "-D", "-f", self.path("slurm.conf"))
        for node in NODES:
            self.daemon("slurmd", "-D", "-N", node, "-f", self.path("slurm.conf"), node=node)
        self.wait_until(lambda: self.run("sinfo", "--noheader", "--format=%T %D").stdout.split() == ["idle", str(len(NODES))],
                        "two idle nodes")

    def wait_until(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"no {what} after {seconds} s\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".log", ".out")):
                with open(self.path(name), encoding="utf-8", errors="replace") as f:
                    text += f"--- {name}\n" + "".join(f.readlines()[-20:])
        return text

    def run(self, *command, **how):
        return subprocess.run(self.inside(command),
                              **{"env": self.environment, "capture_output": True, "text": True, "timeout": 120, **how})

    def stop(self):
        self.run("scancel", "--user=root", "--quiet", timeout=20)
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            for daemon in reversed(self.daemons):
                if daemon.poll() is None:
                    os.killpg(daemon.pid, signal_number)
            end = time.monotonic() + 10
            while any(daemon.poll() is None for daemon in self.daemons) and time.monotonic() < end:
                time.sleep(0.05)
        self.temporary.cleanup()


if __name__ == "__main__":
    if missing():
        sys.exit(f"slurm_cluster.py: {missing()}")
    with SlurmCluster() as cluster:
        sys.exit(cluster.run(*sys.argv[1:], capture_output=False, timeout=None).returncode)
