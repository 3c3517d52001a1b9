"""Processes without the token: a run refuses them, and they do no harm at its ports."""
import os
import random
import signal
import socket
import subprocess

import support
from launch import LONG, LaunchTest, free_port
from support import BUSY, children_of, json_lines, stop, text_of

SEED = 4


def listening_ports(pids):
    """TCP ports on which these processes listen, at any address: {(address in hexadecimal, port)}."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in text_of(f"/proc/net/{table}").splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.add((address, int(port, 16)))
    return found


class Strangers(LaunchTest):
    def start(self, rank, size, **variables):
        name = self.path(f"rank-{rank}.txt")
        with open(name, "w", encoding="utf-8") as log:
            process = subprocess.Popen([support.PROGRAM, "train", "e.toml", "--data-dir", self.data, "--out", "o"], cwd=self.folder,
                                       stdout=log, stderr=log,
                                       env={**self.environment, "RANK": str(rank), "WORLD_SIZE": str(size), **variables})
        process.said = lambda: text_of(name)
        self.addCleanup(stop, process)
        return process

    def test_a_token_of_the_runs_own(self):
        reach = self.write("reach", '#!/bin/sh\nshift\ntee -a ../tokens | sh -c "$*"\n')  # an agent reads the token from its input
        os.chmod(reach, 0o755)
        process = self.launch("--hosts", "127.0.0.1:1,127.0.0.2:1", "--ssh", reach, "train", "e.toml", "--out", "o", *LONG)
        self.wait_for(process, lambda: os.path.exists(self.path("o", "metrics.jsonl")))
        agents = [agent for shell in children_of(process.pid) for agent in children_of(shell)]
        ranks = [rank for agent in agents for rank in children_of(agent)]
        tokens = text_of(self.path("..", "tokens")).split()
        self.assertEqual((len(ranks), len(tokens), len(set(tokens))), (2, 2, 1))
        token = tokens[0]
        self.assertGreaterEqual(len(token), 32)
        for pid in [process.pid, *agents, *ranks]:
            self.assertNotIn(token, text_of(f"/proc/{pid}/cmdline"))
        for address, _ in listening_ports(ranks):
            self.assertIn(address, ("0100007F", "0200007F"), "on the loopback only")  # 127.0.0.1, little-endian
        process.send_signal(signal.SIGINT)
        process.wait(20 * BUSY)
        for folder, _, files in os.walk(self.folder):
            for file in files:
                with open(os.path.join(folder, file), "rb") as f:
                    self.assertNotIn(token.encode(), f.read(), os.path.join(folder, file))
        self.gone([*agents, *ranks], 2)

    def test_other_machines_need_a_token(self):
        for variables, says in (({"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"},
                                 ["TRIREME_TOKEN", "192.0.2.1", "openssl rand -hex 16"]),
                                ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TRIREME_TOKEN": "short"},
                                 ["TRIREME_TOKEN", "too short"])):
            process = self.start(1, 2, **variables)
            self.assertEqual(process.wait(30 * BUSY), 2, process.said())
            for text in says:
                self.assertIn(text, process.said())

    def test_a_wrong_token_is_refused(self):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        first = self.start(0, 2, **place, TRIREME_TOKEN="0123456789abcdef0123456789abcdef")
        other = self.start(1, 2, **place, TRIREME_TOKEN="fedcba9876543210fedcba9876543210")
        self.assertNotEqual(other.wait(30 * BUSY), 0)
        self.assertIn("does not accept this rank's token", other.said())
        self.assertIsNone(first.poll(), "it waits for a rank that has the token")
        stop(first)
        again = self.start(0, 2, **place, TRIREME_TOKEN="0123456789abcdef0123456789abcdef")
        other = self.start(1, 2, **place, TRIREME_TOKEN="0123456789abcdef0123456789abcdef")
        self.assertEqual((again.wait(60 * BUSY), other.wait(60 * BUSY)), (0, 0), again.said() + other.said())

    def test_bytes_of_strangers_change_nothing(self):
        """Sends bytes to every port at which ranks listen while they train."""
        draw = random.Random(SEED)
        process = self.launch("-n", "2", "train", "e.toml", "--out", "o", *LONG)
        ranks = self.training(process)
        ports = {port for _, port in listening_ports(ranks.values())}
        self.assertTrue(ports, "the rendezvous's port; gloo closes its own port when all ranks are connected")
        slow = []
        for port in ports:
            for i in range(20):
                s = socket.create_connection(("127.0.0.1", port), timeout=5)
                try:
                    s.sendall(draw.choice([draw.randbytes(draw.choice([1, 4, 8, 100, 20000])), b"\xff" * 64, bytes(64),
                                           b"GET / HTTP/1.1\r\n\r\n"]))
                except OSError:
                    pass  # it closed the connection, which is allowed
                if i % 4 == 0:
                    slow.append(s)  # sends no more and stays connected
                else:
                    s.close()
        metrics = self.path("o", "metrics.jsonl")
        before = text_of(metrics).count("\n")
        self.wait_for(process, lambda: text_of(metrics).count("\n") > before + 20)
        losses = [line.get("loss") for line in json_lines(metrics)]
        self.assertTrue(all(loss is None or loss == loss for loss in losses), f"seed {SEED}")
        process.send_signal(signal.SIGINT)
        process.wait(20 * BUSY)
        self.gone(ranks.values(), 2)
        for s in slow:
            s.close()
        self.assertEqual(self.json("o/run.json")["rows"][0]["status"], "interrupted", process.said())
