"""Slurm: a job on two nodes with the script of `trireme launch --print slurm`."""
import os

import support
from launch import Launch as _Launch
from slurm_cluster import NODES, SlurmCluster, missing
from support import CliTest


class Slurm(CliTest):
    curve, weights, in_threads = _Launch.curve, _Launch.weights, _Launch.in_threads

    def submit(self, cluster, name, *arguments):
        """Runs a job to its end; returns its exit code and output."""
        script, _ = self.trireme("launch", "--print", "slurm", "--hosts", ",".join(f"{node}:1" for node in NODES), "train", "e.toml",
                                 "--out", name, "--json", f"{name}.json", *arguments)
        self.assertIn("#SBATCH --nodes=2", script)
        self.write(f"{name}.sh", script)
        environment = {**cluster.environment, **self.environment, "SLURM_CONF": cluster.environment["SLURM_CONF"]}
        environment["PATH"] = os.path.dirname(support.PROGRAM) + ":" + cluster.environment["PATH"]
        done = cluster.run("sbatch", "--wait", f"--output={self.path(name)}.log", f"{name}.sh", env=environment, cwd=self.folder)
        log = self.path(f"{name}.log")
        said = done.stdout + done.stderr
        if os.path.exists(log):
            with open(log, encoding="utf-8") as f:
                said += f.read()
        return done.returncode, said

    def test_a_job_of_two_nodes(self):
        if missing():
            self.skipTest(missing())
        self.in_threads("t", "data", 2)
        with SlurmCluster() as cluster:
            for backend in ("gloo", "mpi"):
                with self.subTest(backend):
                    code, said = self.submit(cluster, backend, "--backend", backend)
                    if backend == "mpi" and "has no MPI" in said:
                        self.skipTest("this build has no MPI")
                    self.assertEqual(code, 0, said + cluster.logs())
                    self.assertEqual(self.curve(f"{backend}.json"), self.curve("t.json"))
                    self.assertEqual(self.weights(backend), self.weights("t"))
                    self.assertIn(f"2 processes on 1 machine, backend {backend}", said)
            code, said = self.submit(cluster, "bad", "--set", "modle.name=mlp")
            self.assertNotEqual(code, 0)
            self.assertEqual(said.count("trireme: "), 1, said)
            self.assertIn("modle", said)
