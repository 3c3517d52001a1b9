"""Elastic runs: ranks are killed, the others continue or are joined by new ones, and the curve is that of the undisturbed run."""
import json
import os
import signal

from launch import Launch, LaunchTest, free_port
from support import BUSY, children_of, json_lines, rank_of, wait_until

TRAINING = ["--set", "length=400 steps", "--set", "evaluate_every=50 steps", "--set", "checkpoint.every=20 steps"]
RUN = ["--set", "elastic=true", *TRAINING]
EXACT = ["--set", "precision=fp64"]


class Elastic(LaunchTest):
    rank = Launch.rank

    def row(self, *names):
        row = self.json(*names, "run.json")["rows"][0]
        self.assertEqual(row["status"], "ok", row["reason"])
        return row

    def lines(self, folder, kind):
        return [line for line in json_lines(self.path(folder, "metrics.jsonl")) if line["kind"] == kind]

    def undisturbed(self, plan, devices, *flags):
        self.trireme("train", "e.toml", "--plan", plan, "--devices", str(devices), "--set", "replicas=private", *TRAINING, *flags,
                     "--out", "whole")

    def group(self, process, size):
        """The ranks of the group that trains now; waits until all are there."""
        def found():
            ranks = {rank_of(pid): pid for pid in children_of(process.pid)}
            return ranks if len(ranks) == size and None not in ranks else None
        return wait_until(lambda: found() or (process.poll() is not None and self.fail(process.said())), 30)

    def trains_to(self, process, step, folder="o"):
        """Waits until the run has a checkpoint of `step` or later."""
        path = self.path(folder, "checkpoints")
        self.wait_for(process, lambda: os.path.isdir(path)
                      and any(name[5:].isdigit() and int(name[5:]) >= step for name in os.listdir(path)))

    def steps_shown(self, folder="o"):
        path = self.path(folder, "metrics.jsonl")
        return len(self.lines(folder, "step")) if os.path.exists(path) else 0

    def records(self, folder="o"):
        return json_lines(self.path(folder, "elastic-groups.jsonl"))

    def ends_well(self, process):
        self.assertEqual(process.wait(90 * BUSY), 0, process.said())

    def expect_whole_curve(self, tolerance, folder="o"):
        """Expects all steps and evaluations once, in order, as in the undisturbed run, in run.json and in metrics.jsonl."""
        row, whole = self.row(folder), self.row("whole")
        self.assertEqual(self.json(folder, "run.json")["status"], "finished")
        for key in ("curve", "evaluations"):
            self.assertEqual([(p["step"], p["samples"]) for p in row[key]], [(p["step"], p["samples"]) for p in whole[key]])
            for point, other in zip(row[key], whole[key], strict=True):
                self.assertLessEqual(abs(point["loss"] - other["loss"]), tolerance * abs(other["loss"]), (key, point["step"]))
        self.assertEqual([e["metrics"][0]["name"] for e in row["evaluations"]], [e["metrics"][0]["name"] for e in whole["evaluations"]])
        for kind, key in (("step", "curve"), ("test", "evaluations")):
            self.assertEqual([(line["step"], line["loss"]) for line in self.lines(folder, kind)],
                             [(p["step"], p["loss"]) for p in row[key]])
        if tolerance == 0:
            self.assertEqual(self.weights(folder), self.weights("whole"))
            self.assertEqual(row["to_target"] and row["to_target"]["steps"], whole["to_target"] and whole["to_target"]["steps"])
        return row

    def test_replaced_ranks_change_nothing(self):
        """Two ranks are lost one after the other; one of them is rank 0."""
        self.undisturbed("data", 3)
        process = self.launch("-n", "3", "--restarts", "2", "train", "e.toml", *RUN, "--plan", "data", "--out", "o")
        self.trains_to(process, 60)
        first = self.group(process, 3)
        os.kill(first[2], signal.SIGKILL)
        self.gone(first.values(), 10)
        self.trains_to(process, 160)
        os.kill(self.group(process, 3)[0], signal.SIGKILL)
        self.ends_well(process)
        row = self.expect_whole_curve(0)
        self.assertEqual([change["from"] for change in row["changes"]], ["data 3", "data 3"])
        self.assertEqual((row["plan"], row["devices"], row["group_devices"]), ("data 3", 3, []))
        for change, rank, least in zip(row["changes"], (2, 0), (60, 160), strict=True):
            self.assertIn(f"rank {rank} was ended by signal 9", change["reason"])
            self.assertGreaterEqual(change["step"], least)
            self.assertGreater(change["seconds"], 0)
            self.assertLess(change["seconds"], 20)
        self.assertEqual(row["changes"][1]["step"] % 20, 0, "rank 0's own last steps went with it")
        self.assertEqual([record["processes"] for record in self.records()], [3, 3, 3])
        self.assertIn("3 continue under data", process.said().replace("processes ", ""))

    def test_no_step_is_lost_with_a_rank(self):
        """Rank 0 keeps all that it trained, long before the first checkpoint. One rank is killed, the other one frozen."""
        self.undisturbed("data", 3)
        process = self.launch("-n", "3", "--restarts", "2", "train", "e.toml", *RUN, "--set", "checkpoint.every=100000 steps",
                              "--plan", "data", "--out", "o")
        begun_at = 0
        for number, stop in ((1, signal.SIGKILL), (2, signal.SIGSTOP)):
            self.wait_for(process, lambda: self.steps_shown() > begun_at + 60)
            ranks, shown = self.group(process, 3), self.steps_shown()
            os.kill(ranks[number], stop)
            self.wait_for(process, lambda: len(self.records()) == number + 1)
            begun_at = self.records()[number]["step"]
            self.assertGreaterEqual(begun_at, shown)
        self.ends_well(process)
        self.expect_whole_curve(0)

    def test_those_left_go_on(self):
        """Three ranks, then two, then one; the last two losses come at once."""
        self.undisturbed("data", 3, *EXACT)
        process = self.launch("-n", "3", "train", "e.toml", *RUN, *EXACT, "--plan", "data", "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 3)[1], signal.SIGKILL)
        self.wait_for(process, lambda: len(self.records()) == 2)
        self.trains_to(process, self.records()[1]["step"] + 40)
        os.kill(self.group(process, 2)[0], signal.SIGKILL)
        self.ends_well(process)
        row = self.expect_whole_curve(1e-9)
        self.assertEqual([change["to"] for change in row["changes"]], ["data 2", "one device"])
        self.assertEqual(row["plan"], "data 3 -> data 2 -> one device")
        self.assertEqual((row["devices"], row["group_devices"]), (1, [3, 2, 1]))
        self.assertEqual(len(row["memory_bytes"]), 1)
        out, _ = self.trireme("report", "o", data=False)
        self.assertIn("1 (1 to 3)", " ".join(out.split()))
        self.assertIn("one process continues", process.said())

    def test_a_batch_per_device_is_that_of_the_first_group(self):
        self.undisturbed("data", 2, *EXACT, "--set", "batch=32")
        process = self.launch("-n", "2", "train", "e.toml", *RUN, *EXACT, "--set", "batch=16 per device", "--plan", "data", "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 2)[1], signal.SIGKILL)
        self.ends_well(process)
        row = self.expect_whole_curve(1e-9)
        self.assertEqual((row["devices"], row["group_devices"]), (1, [2, 1]))

    def test_frozen_ranks(self):
        """The first frozen rank is replaced. Rank 0, which freezes later, is not. No frozen rank continues."""
        self.undisturbed("data", 3, *EXACT)
        process = self.launch("-n", "3", "--restarts", "1", "train", "e.toml", *RUN, *EXACT, "--plan", "data", "--out", "o")
        for groups, (frozen, step) in enumerate([(1, 40), (0, 160)]):
            self.trains_to(process, step)
            ranks = self.group(process, 3)
            os.kill(ranks[frozen], signal.SIGSTOP)
            wait_until(lambda: len(self.records()) == groups + 2, 25)
            self.gone(ranks.values(), 5)
        self.ends_well(process)
        row = self.expect_whole_curve(1e-9)
        self.assertEqual([change["to"] for change in row["changes"]], ["data 3", "data 2"])
        for change, (rank, _) in zip(row["changes"], [(1, 40), (0, 160)], strict=True):
            self.assertIn(f"rank {rank} ", change["reason"])

    def test_a_rank_that_is_asked_to_go(self):
        """As when a node is drained."""
        self.undisturbed("data", 3, *EXACT)
        process = self.launch("-n", "3", "train", "e.toml", *RUN, *EXACT, "--plan", "data", "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 3)[1], signal.SIGTERM)
        self.ends_well(process)
        row = self.expect_whole_curve(1e-9)
        self.assertEqual(row["plan"], "data 3 -> data 2")
        self.assertIn("rank 1 was ended by signal 15", row["changes"][0]["reason"])

    def test_degrees_that_are_spelled_out(self):
        self.undisturbed("data=2,tensor=2", 4, *EXACT)
        process = self.launch("-n", "4", "train", "e.toml", *RUN, *EXACT, "--plan", "data=2,tensor=2",
                              "--set", "checkpoint.folder=elsewhere", "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 4)[3], signal.SIGKILL)
        self.ends_well(process)
        row = self.expect_whole_curve(1e-9)
        self.assertEqual([change["to"] for change in row["changes"]], ["tensor 2"])
        self.assertEqual(os.listdir(self.path("elsewhere")), ["o"], "the second group goes on in the first one's folder")
        self.assertIn("1 of the remaining processes has nothing to do", process.said())

    def test_what_powersgd_owes_goes_on(self):
        """A lost rank costs the steps since the checkpoint, which holds what all ranks had not sent."""
        plan = "data,compression=powersgd:1"
        self.undisturbed(plan, 3, *EXACT)
        process = self.launch("-n", "3", "train", "e.toml", *RUN, *EXACT, "--plan", plan, "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 3)[2], signal.SIGKILL)
        self.ends_well(process)
        row, whole = self.row("o"), self.row("whole")
        self.assertEqual([change["to"] for change in row["changes"]], ["data 2, powersgd rank 1"])
        last = row["changes"][0]["step"]
        self.assertEqual(last % 20, 0)
        self.assertEqual([p["step"] for p in row["curve"]], [p["step"] for p in whole["curve"]])
        for point, other in zip(row["curve"][:last + 10], whole["curve"], strict=False):  # later on rounding has grown
            tolerance = 0 if point["step"] <= last else 1e-7
            self.assertLessEqual(abs(point["loss"] - other["loss"]), tolerance * other["loss"], point["step"])

    def test_others_join_later(self):
        """Two ranks train until a third one joins them between two steps."""
        flags = [*EXACT, "--set", "optimizer.schedule=constant"]
        self.undisturbed("data", 3, *flags)
        process = self.launch("-n", "3", "--restarts", "1", "--restart-after", "15 s", "train", "e.toml", *RUN, *flags,
                              "--set", "length=1000000 steps", "--plan", "data", "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 3)[2], signal.SIGKILL)
        self.wait_for(process, lambda: len(self.records()) == 3)
        self.trains_to(process, self.records()[2]["step"] + 40)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30 * BUSY), 1, process.said())
        self.assertEqual([record["processes"] for record in self.records()], [3, 2, 3], process.said())
        row, whole = self.json("o", "run.json")["rows"][0], self.row("whole")
        self.assertEqual(row["status"], "interrupted")
        self.assertEqual([p["step"] for p in row["curve"]], list(range(1, len(row["curve"]) + 1)))
        for point, other in zip(row["curve"], whole["curve"]):
            self.assertLessEqual(abs(point["loss"] - other["loss"]), 1e-9 * other["loss"], point["step"])
        self.assertIn("1 process takes the place of lost processes", row["changes"][1]["reason"])
        # the group that ends for the new rank prints this; only the launcher prints, at the end, how to continue
        before, after = process.printed().split("this group of 2 ends after step ")
        self.assertRegex(after, r"^\d+, so that the run continues with 3 ranks\n")
        self.assertNotIn("stopped by the user", before)
        self.assertIn("stopped by the user", after)
        self.assertNotIn("to resume:", process.printed())
        self.assertEqual(process.said().count("to resume:"), 1, process.said())
        self.assertIn("--resume o\n", process.said())

    def test_the_wait_for_others_begins_with_training(self):
        """A group takes longer to start than --restart-after, but still trains before it makes room."""
        process = self.launch("-n", "3", "--restarts", "1", "--restart-after", "0.1 s", "train", "e.toml", *RUN,
                              "--set", "length=100000 steps", "--plan", "data", "--out", "o")
        self.trains_to(process, 40)
        os.kill(self.group(process, 3)[2], signal.SIGKILL)
        self.wait_for(process, lambda: len(self.records()) == 3)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30 * BUSY), 1, process.said())
        records = self.records()
        self.assertEqual([record["processes"] for record in records], [3, 2, 3], process.said())
        self.assertGreater(records[2]["step"], records[1]["step"])

    def test_groups_that_begin_nothing_have_their_line(self):
        """Ranks are killed as soon as they have started, also those of the last group."""
        process = self.launch("-n", "2", "--restarts", "2", "train", "e.toml", *RUN, "--set", "length=100000 steps", "--plan", "tensor=2",
                              "--out", "o")
        self.trains_to(process, 40)
        old = []
        for _ in range(3):
            ranks = wait_until(lambda: (group := self.group(process, 2)) and not set(group.values()) & set(old) and group, 30)
            old = list(ranks.values())
            os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(process.wait(30 * BUSY), 1, process.said())
        records = self.records()
        self.assertEqual([(record["number"], record["processes"]) for record in records], [(0, 2), (1, 2), (2, 2)], process.said())
        for record in records[1:]:
            self.assertIn("rank 1 was ended by signal 9", record["reason"])
            self.assertGreaterEqual(record["step"], 40)
            self.assertGreater(record["seconds"], 0)

    def test_a_loss_before_the_first_checkpoint(self):
        self.undisturbed("data", 2)
        process = self.launch("-n", "2", "--restarts", "1", "train", "e.toml", *RUN, "--set", "checkpoint.every=100 steps",
                              "--plan", "data", "--out", "o")
        ranks = self.training(process)
        os.kill(ranks[1], signal.SIGKILL)
        self.ends_well(process)
        self.expect_whole_curve(0)

    def test_hosts(self):
        """A rank is lost on a host that has two, then the whole host."""
        self.undisturbed("data", 3, *EXACT)
        process = self.launch("--hosts", "127.0.0.1:1,127.0.0.2:2", "--ssh", self.shell_instead_of_ssh(), "train", "e.toml", *RUN, *EXACT,
                              "--plan", "data", "--out", "o")
        self.trains_to(process, 40)
        agents = children_of(process.pid)
        victims = [ranks for ranks in map(children_of, agents) if len(ranks) == 2]
        self.assertEqual(len(victims), 1)
        os.kill(victims[0][1], signal.SIGKILL)
        self.wait_for(process, lambda: len(self.records()) == 2)
        self.trains_to(process, self.records()[1]["step"] + 40)
        agents = children_of(process.pid)
        self.assertEqual(len(agents), 2)
        os.kill(agents[1], signal.SIGKILL)
        self.ends_well(process)
        self.assertEqual([record["processes"] for record in self.records()], [3, 2, 1])
        self.expect_whole_curve(1e-9)

    def test_what_ends_an_elastic_run(self):
        """Ctrl-C; an error that is not a lost process; a plan that does not fit the remaining ranks."""
        process = self.launch("-n", "2", "--restarts", "5", "train", "e.toml", *RUN, "--set", "length=100000 steps", "--out", "o")
        ranks = self.training(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        self.assertEqual(self.json("o", "run.json")["rows"][0]["status"], "interrupted")
        self.assertEqual(len(self.records()), 1)
        out, _ = self.trireme("launch", "-n", "2", "--restarts", "5", "train", "e.toml", *RUN, "--set", "optimizer.learning_rate=1e38",
                              "--out", "d", code=1)
        self.assertIn("diverged", out)
        self.assertEqual(len(self.records("d")), 1)
        process = self.launch("-n", "2", "train", "e.toml", *RUN, "--set", "length=100000 steps", "--plan", "tensor=2", "--out", "t")
        self.trains_to(process, 20, "t")
        ranks = self.group(process, 2)
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(process.wait(15 * BUSY), 1, process.said())
        self.gone(ranks.values(), 1)
        for words in ("rank 1 was ended by signal 9", "1 process cannot continue under tensor=2", "--restarts", "--resume t"):
            self.assertIn(words, process.said().splitlines()[-1])

    def test_an_input_that_a_further_group_cannot_use_is_said_once(self):
        """The ranks of a group that begins when the training is complete: fewer of them would find the same."""
        self.trireme("launch", "-n", "2", "train", "e.toml", *RUN, "--set", "length=20 steps", "--plan", "data", "--out", "o")
        group = {"number": 1, "folder": "o", "plan": "data", "reason": "rank 2 was lost", "ended_at": 0, "next_processes": 0}
        port = str(free_port())
        ranks = [self.rank({"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                            "TRIREME_ELASTIC_GROUP": json.dumps(group)}, *RUN, "--set", "length=20 steps") for rank in "01"]
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [1, 1], "an exit code for which the launcher tries no fewer")
        self.assertEqual((said[0].count("training is complete"), said[1]), (1, ""), said)

    def test_refuses(self):
        launch = ["launch", "-n", "2", "train", "e.toml"]
        self.all_refused([
            ([*launch, "--set", "elastic=true"], ["elastic", "needs checkpoints", "[checkpoint]"]),
            (["launch", "-n", "2", "--restarts", "1", "train", "e.toml"], ["--restarts", "elastic=true"]),
            (["launch", "-n", "2", "--restart-after", "1 s", "train", "e.toml", *RUN], ["--restart-after", "--restarts 1"]),
            (["launch", "-n", "2", "--restarts", "1", "--restart-after", "soon", "train", "e.toml", *RUN], ["--restart-after", "soon"]),
            ([*launch, *RUN, "--set", "checkpoint.every=0 steps"], ["checkpoint.every"]),
            (["train", "e.toml", *RUN], ["--set elastic=true", "is for trireme launch", "--set elastic=false"]),
            (["compare", "e.toml", *RUN], ["--set elastic=true", "does not work where plans are compared", "--set elastic=false"]),
            (["launch", "-n", "2", "compare", "e.toml", *RUN], ["--set elastic=true", "does not work where plans are compared"]),
            (["serve", "e.toml", *RUN, "--plan", "fedavg,rounds=1", "--spawn", "1"],
             ["--set elastic=true", "is for trireme launch: a server continues", "--set elastic=false"]),
        ])
        self.environment.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29779", TRIREME_ELASTIC_GROUP="rubbish")
        self.refused("train", "e.toml", says=["TRIREME_ELASTIC_GROUP", "unset it"])
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_messages_do_not_hide_how_to_go_on(self):
        process = self.launch("-n", "2", "train", "e.toml", *RUN, "--set", "length=1000000 steps", "--plan", "data",
                              "--messages", "--out", "o")
        self.trains_to(process, 40)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30 * BUSY), 1, process.said())
        self.assertEqual(json.loads(process.printed().splitlines()[-1])["row"]["status"], "interrupted")
        self.assertEqual(process.said().count("to resume:"), 1, process.said())
        self.assertIn("--resume o\n", process.said())
