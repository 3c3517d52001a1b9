"""Replicas as processes, with serve and join: which processes may join, and how a run ends if its processes die or freeze."""
import array
import os
import re
import signal
import socket
import subprocess

import support
from support import BUSY, CliTest, json_lines, stop, text_of, wait_until

TOKEN = "a token of these tests"
LONG = ["--set", "length=100000 steps", "--set", "evaluate_every=100000 steps"]
LOCAL = "local-sgd,every=2 steps"
# A model with batch norms, and clients whose images have noise of different strength.
BATCH_NORMS = """
batch = 16
length = "8 steps"
evaluate_every = "4 steps"
devices = [2]
strategies = ["fedavg"]

[model]
name = "cifar-resnet18"
options.width = 2

[data]
name = "mnist"
train_limit = 400
test_limit = 64

[optimizer]
learning_rate = 0.05
momentum = 0

[update]
shares = "features"
"""


class Processes(CliTest):
    def setUp(self):
        super().setUp()
        self.environment["TRIREME_TOKEN"] = TOKEN

    def launch(self, *arguments):
        """Starts a process; its standard error goes to a file, which a test can read while the process runs."""
        name = self.path(f"{arguments[0]}-{len(os.listdir(self.folder))}.log")
        with open(name, "w", encoding="utf-8") as log:
            process = subprocess.Popen([support.PROGRAM, *arguments, "--data-dir", self.data], cwd=self.folder, env=self.environment,
                                       stdout=subprocess.DEVNULL, stderr=log)
        process.said = lambda: text_of(name)
        self.addCleanup(stop, process)
        return process

    def test_a_server_goes_on(self):
        """A server is stopped and resumed: its weights, state and round are written while clients come and go; they join it again and begin with
        its weights."""
        every = ["--set", "checkpoint.every=2 steps", "--set", "checkpoint.keep=0", "--set", "optimizer.momentum=0"]
        for k, policy in enumerate(("fedadam,rounds=6,local=2 steps", "easgd,period=2")):
            serve = ["serve", "e.toml", "--plan", policy, "--spawn", "2", "--set", "length=12 steps", *every[4:]]
            self.trireme(*serve, *every[:4], "--out", f"w{k}")
            written = sorted(os.listdir(self.path(f"w{k}", "checkpoints")))
            self.assertGreaterEqual(len(written), 2, policy)
            self.trireme("checkpoints", "verify", f"w{k}", data=False)
            checkpoint = os.path.join(f"w{k}", "checkpoints", written[0])
            out, _ = self.trireme(*serve, "--resume", checkpoint, "--out", f"r{k}")
            whole, rest = (self.json(f"{kind}{k}", "run.json")["rows"][0] for kind in "wr")
            self.assertEqual((rest["status"], rest["curve"][0]["step"]), ("ok", int(written[0][5:]) + 1), policy)
            last = rest["evaluations"][-1]
            self.assertGreaterEqual(last["samples"], rest["curve"][-1]["samples"], "the result is that of all steps")
            self.assertEqual((rest["test"]["step"], rest["test"]["loss"]), (last["step"], last["loss"]), policy)
            if "rounds" in policy:
                seconds = [one["seconds"] for one in rest["replicas"]["rounds"]]
                self.assertEqual(len(seconds), 6, "those before the checkpoint, and the rest")
                self.assertEqual(seconds, sorted(seconds), "on one clock")
            self.trireme("train", "e.toml", "--plan", policy, "--set", "length=12 steps", *every[4:], "--resume", checkpoint,
                         "--out", f"t{k}")
        self.refused("serve", "e.toml", "--plan", "local-sgd", "--spawn", "2", *every, says=["local-sgd", "no parameter server"])

    def test_the_last_checkpoint_of_a_server_has_the_last_round(self):
        """It is due when the last step is reported, which is before the client's answer."""
        plan, every = "fedavg,local=4 steps,rounds=", ["--set", "checkpoint.every=4 steps", "--set", "checkpoint.keep=0"]
        plain = ["--set", "optimizer.momentum=0"]
        self.trireme("serve", "e.toml", *plain, "--plan", plan + "3", "--spawn", "2", *every, "--out", "w")
        written = sorted(os.listdir(self.path("w", "checkpoints")))
        self.assertEqual(written[-1], "step-00000012")
        self.assertEqual(self.json("w", "run.json")["rows"][0]["checkpoints"]["written"], len(written))
        self.trireme("checkpoints", "verify", "w", data=False)
        for verb, spawn in (("train", []), ("serve", ["--spawn", "2"])):
            self.refused(verb, "e.toml", *plain, "--plan", plan + "3", *spawn, "--resume", "w",
                         says=["3 rounds are done", "3 rounds in all", "none is left", "rounds=4"])
            self.trireme(verb, "e.toml", *plain, "--plan", plan + "5", *spawn, "--resume", "w", "--out", verb)
            row = self.json(verb, "run.json")["rows"][0]
            self.assertEqual([point["step"] for point in row["curve"]], list(range(13, 21)), verb)
            self.assertEqual([one["answered"] for one in row["replicas"]["rounds"]], [2] * 5, verb)

    def test_what_an_interrupted_server_knows_is_reported(self):
        self.write("bn.toml", BATCH_NORMS)
        for name, plan in (("e.toml", "fedavg,rounds=100000,local=2 steps"),
                           ("bn.toml", "fedavg,rounds=100000,local=2 steps,local_parameters=batch-norm"), ("e.toml", "async-average")):
            out = "o-" + str(len(plan))
            server = self.launch("serve", name, "--plan", plan, "--spawn", "2", "--out", out, *LONG)
            wait_until(lambda out=out: self.rounds(out) > 20, 20)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(15 * BUSY), 1, server.said())
            row = self.json(out, "run.json")["rows"][0]
            self.assertEqual(row["status"], "interrupted", plan)
            self.assertEqual((row["replicas"]["count"], row["replicas"]["bytes_sent"] > 0), (2, True), plan)
            if plan.startswith("async"):
                self.assertIsNone(row["replicas"]["idle_share"], "clients that are ended report nothing")
                self.assertEqual(row["memory_bytes"], [])
                continue
            rounds = row["replicas"]["rounds"]
            self.assertEqual({one["answered"] for one in rounds}, {2}, "the open round has ended")
            self.assertEqual(row["test"]["samples"], sum(one["samples"] for one in rounds), "the last evaluation is that of the end")
            self.assertTrue(all(one["peak"] > 0 for one in row["memory_bytes"]), row["memory_bytes"])
            self.assertEqual(any("the mean of these models" in line for line in row["warnings"]), name == "bn.toml", row["warnings"])

    def serve(self, *arguments):
        """Starts a server; returns it and its address."""
        server = self.launch("serve", "e.toml", "--listen", "tcp://127.0.0.1:*", *arguments)
        said = wait_until(lambda: re.search(r"listening on (\S+)", server.said())
                          or (server.poll() is not None and self.fail(server.said())))
        return server, said.group(1)

    def join(self, address, number, *arguments):
        return self.launch("join", address, "e.toml", "--client", str(number), *arguments)

    def ends(self, process, code, says, seconds=10):
        """Expects an end with one line besides the log."""
        try:
            self.assertEqual(process.wait(seconds * BUSY), code, process.said())
        except subprocess.TimeoutExpired:
            self.fail(f"still runs after {seconds * BUSY} s: {process.said()}")
        lines = [line for line in process.said().splitlines() if line.startswith("trireme: ")]
        self.assertEqual(len(lines), 1 if code else 0, process.said())
        for words in says:
            self.assertIn(words, process.said())
        self.assertNotIn(TOKEN, process.said())

    def rounds(self, folder):
        file = self.path(folder, "metrics.jsonl")
        return text_of(file).count("\n") if os.path.exists(file) else 0

    def weights(self, *names):
        with open(self.path(*names, "weights.safetensors"), "rb") as f:
            content = f.read()
        return content

    def test_processes_train_what_threads_do(self):
        for k, plan in enumerate((LOCAL, "diloco,every_steps=3", "fedavg,rounds=2")):
            seed = ["--seed", "9"] if k == 0 else []  # clients get it from the server
            self.trireme("train", "e.toml", "--plan", plan, "--devices", "2", "--out", f"t{k}", "--json", f"t{k}.json", *seed)
            self.trireme("serve", "e.toml", "--plan", plan, "--spawn", "2", "--out", f"p{k}", "--json", f"p{k}.json", *seed)
            self.assertEqual(self.weights(f"t{k}"), self.weights(f"p{k}"), plan)
            threads, processes = self.json(f"t{k}.json")["rows"][0], self.json(f"p{k}.json")["rows"][0]
            self.assertEqual(processes["status"], "ok", processes["reason"])
            for point, other in zip(threads["evaluations"], processes["evaluations"], strict=True):
                self.assertEqual((point["samples"], point["loss"]), (other["samples"], other["loss"]), plan)
            self.assertGreater(len({point["loss"] for point in threads["evaluations"]}), 1, plan)
            self.assertEqual(len(threads["curve"]), len(processes["curve"]))
            self.assertEqual(len(processes["memory_bytes"]), 2)
        # over a star each of two replicas sends its weights once per average, as in a ring; 784-32-10 parameters in float32
        self.assertGreaterEqual(self.json("p0.json")["rows"][0]["replicas"]["bytes_sent"], 3 * 2 * 4 * (784 * 32 + 32 + 32 * 10 + 10))

    def test_batch_norms_stay_with_clients_that_are_processes(self):
        """The server has each client's newest ones: for evaluations, for checkpoints, and for clients that join it again."""
        self.write("bn.toml", BATCH_NORMS)
        policy = ["--plan", "fedavg,rounds=4,local=2 steps,local_parameters=batch-norm"]
        saves = ["--set", "checkpoint.every=2 steps", "--set", "checkpoint.keep=0"]
        self.trireme("train", "bn.toml", *policy, "--out", "t")
        self.trireme("launch", "-n", "2", "train", "bn.toml", *policy, "--out", "l")
        self.trireme("serve", "bn.toml", *policy, "--spawn", "2", *saves, "--out", "s")
        rows = {kind: self.json(kind, "run.json")["rows"][0] for kind in "tls"}
        own = [client["loss"] for client in rows["t"]["replicas"]["own"]]
        self.assertEqual(len(set(own)), 2, own)
        self.assertAlmostEqual(rows["t"]["test"]["loss"], sum(own) / 2)
        for kind in "ls":
            self.assertEqual(rows[kind]["status"], "ok", rows[kind]["reason"])
            self.assertEqual(self.weights("t"), self.weights(kind), kind)
            self.assertEqual([client["loss"] for client in rows[kind]["replicas"]["own"]], own, kind)
        self.assertEqual(rows["l"]["replicas"]["bytes_sent"], rows["t"]["replicas"]["bytes_sent"])
        first = os.path.join("s", "checkpoints", sorted(os.listdir(self.path("s", "checkpoints")))[0])
        self.trireme("checkpoints", "verify", "s", data=False)
        self.trireme("serve", "bn.toml", *policy, "--spawn", "2", "--resume", first, "--out", "r")
        rest = self.json("r", "run.json")["rows"][0]
        self.assertEqual((rest["status"], len(rest["replicas"]["rounds"])), ("ok", 4), rest["reason"])
        self.assertEqual(len({client["loss"] for client in rest["replicas"]["own"]}), 2, "each has got its own back")

    def test_a_round_goes_on_without_a_client_which_comes_back(self):
        server, address = self.serve("--clients", "2", "--plan", "fedavg,rounds=100000,local=2 steps", "--out", "o", *LONG)
        first, second = self.join(address, 0, *LONG), self.join(address, 1, *LONG)
        wait_until(lambda: self.rounds("o") > 4)
        second.kill()
        wait_until(lambda: "client 1 was lost" in server.said())
        before = self.rounds("o")
        wait_until(lambda: self.rounds("o") > before + 4)
        again = self.join(address, 1, *LONG)
        wait_until(lambda: "client 1 has returned" in server.said())
        # a frozen client counts as lost; when it continues it joins again
        first.send_signal(signal.SIGSTOP)
        wait_until(lambda: "client 0 was lost" in server.said(), 10)
        first.send_signal(signal.SIGCONT)
        wait_until(lambda: "client 0 has returned" in server.said())
        wait_until(lambda: first.said().count("client 0 of 2: ") == 2)  # before this it would try to join again
        server.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(5 * BUSY), 1)
        for client in (first, again):
            self.ends(client, 0, ["has finished"])
        row = self.json("o", "run.json")["rows"][0]
        self.assertEqual(row["status"], "interrupted")
        self.assertGreater(len(row["replicas"]["rounds"]), 8)
        self.assertTrue(os.path.exists(self.path("o", "weights.safetensors")), "what was trained is saved")

    def evaluations(self, folder):
        file = self.path(folder, "metrics.jsonl")
        return [line for line in json_lines(file) if line["kind"] == "test"] if os.path.exists(file) else []

    def test_evaluates_as_it_goes_and_clients_leave_a_frozen_server(self):
        endless = [*LONG, "--set", "evaluate_every=4 steps"]
        server, address = self.serve("--clients", "1", "--plan", "fedavg,rounds=1000000,local=4 steps", "--out", "o", *endless)
        client = self.join(address, 0, *endless)
        wait_until(lambda: len(self.evaluations("o")) > 2)
        self.assertIsNone(server.poll(), server.said())
        server.send_signal(signal.SIGSTOP)
        late = self.join(address, 0, *endless)
        self.ends(client, 1, ["showed no sign of life", address, "no server answered for 4 s"], 15)
        self.ends(late, 1, [address, "no server answered for 10 s"], 15)

    def test_the_federated_example(self):
        example = os.path.join(support.EXAMPLES, "federated.toml")
        out, _ = self.trireme("serve", example, "--spawn", "4", "--set", "update.fedavg.rounds=3", "--set", "batch=32", "--out", "o",
                              "--json", "o.json")
        row = self.json("o.json")["rows"][0]
        self.assertEqual(row["status"], "ok", row["reason"])
        # half of the clients with 64 samples each in each of three rounds; the last evaluation is the result
        self.assertEqual([e["samples"] for e in row["evaluations"]], [128, 256, 384])
        self.assertEqual([e["seconds"] for e in row["evaluations"][:2]], [one["seconds"] for one in row["replicas"]["rounds"][:2]],
                         "both count from the first step, not from the server's start")
        self.assertEqual(out.count(": test loss"), 3, out)
        self.assertEqual(len(self.evaluations("o")), 3)

    def test_own_data_counts_by_its_samples_and_clients_may_come_later(self):
        def train(out, *clients):
            """Trains one round with the given clients (number, samples). The other clients do not join."""
            server, address = self.serve("--clients", "2", "--clients-at-least", str(len(clients)), "--own-data",
                                         "--plan", "fedavg,rounds=1", "--set", "seed=3", "--out", out, "--json", out + ".json")
            joined = [self.join(address, number, "--own-data", "--set", f"data.train_limit={samples}") for number, samples in clients]
            for process in (*joined, server):
                self.ends(process, 0, [], 30)
            return self.json(out + ".json")["rows"][0]["evaluations"][-1]["samples"], self.values(out)

        seen, mean = train("both", (0, 64), (1, 160))
        self.assertEqual(seen, 64 + 160)
        (_, first), (_, second) = train("first", (0, 64)), train("second", (1, 160))
        self.assertEqual(len(mean), 784 * 32 + 32 + 32 * 32 + 32 + 32 * 10 + 10)
        for w, a, b in zip(mean, first, second, strict=True):
            self.assertAlmostEqual(w, (64 * a + 160 * b) / 224, 6)
        self.assertNotEqual(first, second)

    def values(self, folder):
        """All weights of a run, in the order of the file."""
        content = self.weights(folder)
        begin = 8 + int.from_bytes(content[:8], "little")
        return array.array("f", content[begin:])

    def test_own_data_is_agreed_on(self):
        server, address = self.serve("--clients", "1", "--plan", "fedavg,rounds=1", "--own-data", "--out", "o")
        self.refused("join", address, "e.toml", says=["--own-data: true at the server, not set at the client"])
        self.refused("join", address, "e.toml", "--own-data", "--set", "batch=16", says=["batch"])
        self.ends(self.join(address, 0, "--own-data"), 0, ["has finished"], 20)
        self.assertEqual(server.wait(10 * BUSY), 0, server.said())

    def test_a_lost_client_ends_a_policy_that_needs_all(self):
        server, address = self.serve("--clients", "2", "--plan", LOCAL, "--out", "o", *LONG)
        clients = [self.join(address, number, *LONG) for number in (0, 1)]
        wait_until(lambda: self.rounds("o") > 4)
        clients[1].kill()
        self.ends(clients[0], 1, ["client 1 was lost"])
        self.assertEqual(server.wait(10 * BUSY), 1)
        self.assertIn("client 1 was lost", self.json("o", "run.json")["rows"][0]["reason"])

    def test_visitors_go_on_and_clients_survive_no_server(self):
        server, address = self.serve("--clients", "3", "--plan", "easgd,period=2", "--out", "o", *LONG)
        clients = [self.join(address, number, *LONG) for number in (0, 1, 2)]
        wait_until(lambda: self.rounds("o") > 4)
        clients[0].kill()
        wait_until(lambda: "client 0 was lost" in server.said())
        before = self.rounds("o")
        wait_until(lambda: self.rounds("o") > before + 4)
        server.kill()
        for client in clients[1:]:
            self.ends(client, 1, [address])

    def test_strangers(self):
        server, address = self.serve("--clients", "1", "--plan", LOCAL, "--out", "o")
        host, port = address.removeprefix("tcp://").split(":")
        for rubbish in (b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 400, b"\xff" + b"\x7f" * 9 + b"\xff" * 100,
                        b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE" + b"\xff" * 500):
            with socket.create_connection((host, int(port)), 5) as connection:
                connection.settimeout(0.2)
                try:
                    connection.sendall(rubbish)
                    connection.recv(1000)
                except OSError:
                    pass
        own = self.environment["TRIREME_TOKEN"]
        self.environment["TRIREME_TOKEN"] = "another token of these tests"
        self.refused("join", address, "e.toml", says=["does not accept this token"])
        self.environment["TRIREME_TOKEN"] = own
        self.refused("join", address, "e.toml", "--set", "batch=16", says=["batch", "32 at the server", "16 at the client"])
        self.refused("join", address, "e.toml", "--set", "model.options.hidden=16", says=["model.options.hidden"])
        self.assertIsNone(server.poll(), server.said())
        self.ends(self.join(address, 0), 0, ["has finished"], 20)
        self.assertEqual(server.wait(10 * BUSY), 0, server.said())

    def test_refuses(self):
        self.environment.pop("TRIREME_TOKEN")
        self.write("short", "secret\n")
        self.all_refused([
            (["serve", "e.toml", "--plan", "data", "--spawn", "2"], ["data", "update policy"]),
            (["serve", "e.toml", "--plan", LOCAL], ["--clients"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "1", "--spawn", "2"], ["--spawn"]),
            (["serve", "e.toml", "--clients", "2", "--clients-at-least", "3"], ["--clients-at-least", "2 clients"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "2", "--clients-at-least", "1"], ["--clients-at-least", "all clients"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "2", "--own-data"], ["--own-data", "equally many steps"]),
            (["serve", "e.toml", "--spawn", "2", "--own-data"], ["--own-data", "--spawn"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "2", "--listen", "tcp://0.0.0.0:5555"], ["token", "0.0.0.0"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "2", "--listen", "127.0.0.1"], ["tcp://HOST:PORT"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "2", "--token-file", "short"], ["too short"]),
            (["serve", "e.toml", "--plan", LOCAL, "--clients", "2", "--set", "update.virtual.step_seconds=1 s"], ["update.virtual"]),
            (["join", "tcp://10.1.2.3:5555", "e.toml"], ["token"]),
            (["join", "tcp://127.0.0.1:*", "e.toml"], ["port"]),
            (["join", "tcp://127.0.0.1:5555", "e.toml", "--seed", "9"], ["--seed", "9", "the server's seed"]),
            (["join", "tcp://127.0.0.1:5555", "e.toml", "--set", "seed=9"], ["--set", "seed=9", "the server's seed"]),
        ])
