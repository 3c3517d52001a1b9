"""For tests of the program: a small data set, an experiment, and ways to run `trireme` like a user."""
import concurrent.futures
import gzip
import json
import os
import random
import re
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import forks

PROGRAM = ""  # set by cli_test.py and models_test.py
EXAMPLES = ""

TRAIN, TEST = 256, 64
BUSY = 2  # limits are for an idle machine, with some reserve; a busy machine gets this many times as long

EXPERIMENT = """
name = "small"
batch = 32
length = "6 steps"
evaluate_every = "3 steps"
target = 0.2
precision = "fp32"
devices = [2]
strategies = ["single", "data"]
time_limit = "60 s"

[model]
name = "mlp"
options.hidden = 32

[data]
name = "mnist"

[optimizer]
learning_rate = 0.05
schedule = "cosine"
"""


def idx(dims, payload):
    return struct.pack(">BBBB", 0, 0, 8, len(dims)) + b"".join(struct.pack(">I", d) for d in dims) + payload


def write_digits(folder, train=TRAIN, test=TEST):
    """A set in MNIST's format that can be learnt: bright bars; the label is their place."""
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(5)
    for split, count in (("train", train), ("t10k", test)):
        labels = bytes(draw.randrange(10) for _ in range(count))
        pixels = bytearray()
        for label in labels:
            for y in range(28):
                pixels += bytes(200 if abs(x - 2 * label - 4) < 2 else draw.randrange(40) for x in range(28))
        for kind, content in (("images-idx3", idx([count, 28, 28], bytes(pixels))), ("labels-idx1", idx([count], labels))):
            with gzip.open(os.path.join(folder, f"{split}-{kind}-ubyte.gz"), "wb") as f:
                f.write(content)


def text_of(file):
    with open(file, encoding="utf-8") as f:
        return f.read()


def json_lines(file):
    """The complete lines of a JSON-lines file that another process may be writing."""
    return [json.loads(line) for line in text_of(file).splitlines(keepends=True) if line.endswith("\n")]


class CliTest(unittest.TestCase):
    """A temporary folder as working directory with `data/`, `e.toml` and an environment that finds no other data."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="trireme-cli-")
        cls.data = os.path.join(cls.shared.name, "data")
        write_digits(os.path.join(cls.data, "mnist"))

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="trireme-cli-")
        self.folder = os.path.join(self.temporary.name, "cwd")
        os.makedirs(os.path.join(self.temporary.name, "home"))
        os.makedirs(self.folder)
        self.write("e.toml", EXPERIMENT)
        self.environment = {k: v for k, v in os.environ.items() if k not in ("TRIREME_DATA", "XDG_CACHE_HOME")}
        self.environment.update(HOME=os.path.join(self.temporary.name, "home"),
                                TRIREME_CACHE=os.path.join(self.temporary.name, "cache"), LC_ALL="C.UTF-8")
        self.addCleanup(self.temporary.cleanup)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    predicts = False  # False: comparisons do not measure layers and links first, which takes seconds

    def words(self, arguments, data):
        if arguments[:1] == ("compare",) and not self.predicts:
            arguments += ("--no-predict",)
        return [*arguments] + (["--data-dir", self.data] if data else [])

    def start(self, *arguments, data=True):
        return subprocess.Popen([PROGRAM, *self.words(arguments, data)], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def trireme(self, *arguments, data=True, code=0, seconds=60):
        """Runs the program to its end, checks the exit code, and returns (standard output, standard error)."""
        try:
            ended = forks.run(PROGRAM, self.words(arguments, data), self.folder, self.environment, seconds * BUSY)
        except subprocess.TimeoutExpired:
            self.fail(f"{arguments} did not end within {seconds * BUSY} s")
        self.assertEqual(ended.returncode, code, f"{arguments}: {ended.stdout}\n{ended.stderr}")
        return ended.stdout, ended.stderr

    def refused(self, *arguments, says=(), data=True, code=2):
        """Expects a user's error: this exit code, and one line on standard error with all of `says`."""
        _, err = self.trireme(*arguments, data=data, code=code)
        err = re.sub(r"^(?!trireme: ).* \.\.\.\n", "", err, flags=re.M)  # the line of a long phase
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("trireme: "), err)
        for words in says:
            self.assertIn(words, err)
        self.assertLess(len(err), 500, err)
        return err

    def all_refused(self, cases, **how):
        """Many wrong command lines, each with the words that the message must have. Two run at a time, because most of a case is the start."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            running = [(arguments, pool.submit(self.refused, *arguments, says=says, **how)) for arguments, says in cases]
            for arguments, result in running:
                with self.subTest(arguments):
                    result.result()

    def json(self, *names):
        with open(self.path(*names), encoding="utf-8") as f:
            return json.load(f)

    def rows(self, *names):
        return {(r["strategy"], r["devices"]): r for r in self.json(*names)["rows"]}


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def rank_of(pid):
    """Rank of a process that trireme launch started, which it is named after; None if it is none, or has ended."""
    try:
        name = text_of(f"/proc/{pid}/comm").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(name.removeprefix("trireme-")) if name.startswith("trireme-") and alive(pid) else None


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds * BUSY
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {seconds * BUSY} s")


def stop(process):
    """For clean-up: ends a process that a failed test left behind."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.communicate()
