"""What verbs print fits a terminal of 80 columns, and so do tables in a pipe."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import support
from support import BUSY, CliTest

COLUMNS = 80
# A plan is a file, and a command is to be copied whole.
WHOLE = re.compile(r'^\s*["{}\[\]]|^to (compare|resume)')
ROW = re.compile(r"\S {2,}\S")


class Widths(CliTest):
    def setUp(self):
        super().setUp()
        self.environment.pop("COLUMNS", None)
        self.described = ["--cluster", os.path.join(support.EXAMPLES, "clusters", "dgx1-v100.cluster.toml")]
        self.commands = [
            (["doctor"], False),
            (["data", "list"], True),
            (["plan", "show", "resnet50"], False),
            (["plan", "show", "data=2,tensor=2", "e.toml"], True),
            (["plan", "show", "1f1b", "e.toml", "--devices", "4", "--program"], True),
            (["plan", "best", "e.toml", "--explain", "--devices", "4", *self.described], True),
            (["plan", "project", "e.toml", "--devices", "1..8", "--epochs", "noise=2000,least=12", *self.described], True),
            (["profile", "e.toml", "--budget", "2 s"], True),
            (["simulate", "e.toml", "--devices", "2,4", "--strategies", "single,data,tensor,hybrid", *self.described], True),
            (["verify", "e.toml", "--plan", "data", "--steps", "1"], True),
            (["train", "e.toml", "--steps", "4", "--out", "o", "--set", "checkpoint.every=2 steps"], True),
            (["report", "o", "--details"], False),
            (["checkpoints", "list", "o"], False),
            (["compare", "e.toml", "--steps", "4", "--strategies", "single,data,tensor", "--out", "p"], True),
        ]

    def on_a_terminal(self, arguments, data, columns):
        """The lines that the program wrote to a terminal, each state of a line that it draws again."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        with subprocess.Popen([support.PROGRAM, *self.words(tuple(arguments), data)], cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=follower, stderr=follower) as process:
            os.close(follower)
            written = b""
            while True:
                try:
                    part = os.read(leader, 1 << 16)
                except OSError:  # the last writer has ended
                    break
                if not part:
                    break
                written += part
            self.assertEqual(process.wait(60 * BUSY), 0, written)
        os.close(leader)
        text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", written.decode("utf-8"))
        return [state for line in text.split("\n") for state in line.split("\r")]

    def too_long(self, lines, columns):
        return [line for line in lines if len(line) > columns and " " in line.strip() and not WHOLE.match(line)]

    def test_on_a_terminal(self):
        for arguments, data in self.commands:
            with self.subTest(arguments):
                self.assertEqual(self.too_long(self.on_a_terminal(arguments, data, COLUMNS), COLUMNS), [])

    def test_tables_in_a_pipe(self):
        for arguments, data in self.commands:
            with self.subTest(arguments):
                out, err = self.trireme(*arguments, data=data)
                rows = [line for line in (out + err).splitlines() if ROW.search(line)]
                self.assertTrue(rows or arguments[0] in ("data",), arguments)
                self.assertEqual(self.too_long(rows, COLUMNS), [])

    def test_the_environment_names_another_width(self):
        self.environment["COLUMNS"] = "60"
        out, _ = self.trireme("plan", "show", "resnet50", data=False)
        self.assertEqual(self.too_long(out.splitlines(), 60), [])
        self.environment["COLUMNS"] = "200"
        out, _ = self.trireme("plan", "show", "resnet50", data=False)
        self.assertIn("layer  ", out)
        self.assertEqual(out.count("layer  "), 1, "one block of columns")
