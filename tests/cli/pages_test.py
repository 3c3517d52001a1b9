"""Completion scripts in real shells, and manual pages. Usage: pages_test.py PROGRAM [unittest's arguments]"""
import filecmp
import functools
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import docs_test  # noqa: E402  # finds the commands in pages
import forks  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
SHELLS = ("bash", "zsh", "fish")
TOPICS = {"strategies": "hybrid:tensor", "models": "resnet18", "optimizers": "adamw", "schedules": "gpipe", "policies": "fedavg"}


@functools.cache
def output(*words, code=0):
    pages = not words or words[0] in ("help", "--version") or words[-1] in ("-h", "--help")
    ran = forks.run(PROGRAM, words, os.getcwd(), os.environ, 60) if not pages else \
        subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60)
    if ran.returncode != code:
        raise AssertionError(f"trireme {' '.join(words)}: exit code {ran.returncode}: {ran.stderr}")
    return ran.stderr if code else ran.stdout


def verbs_of(help_text):
    """The verbs in the list of a --help."""
    groups = re.findall(r"^Verbs.*:\n((?:  .*\n)+)", help_text, re.MULTILINE)
    return [verb for group in groups for verb in re.findall(r"^  (\S+)", group, re.MULTILINE)]


def options_of(help_text):
    return {name for line in re.findall(r"^  (-\S+)", help_text, re.MULTILINE) for name in re.findall(r"-[\w-]+", line)}


@functools.cache
def paths():
    """The words of every verb ("plan best" has two); no words for the program."""
    found = [()]
    for path in found:
        found += [(*path, verb) for verb in verbs_of(output(*path, "--help"))]
    return found


def examples_of(help_text):
    return [line.strip() for line in re.search(r"\nExamples.*:\n((?:  .*\n)+)\Z", help_text).group(1).splitlines()]


# Files in examples that only a reader can have, as both are measured or written on the reader's machines.
FILES_OF_READERS = {"my.cluster.toml", "rows.toml"}


def files_missing(examples):
    """The files and folders that these commands read, and that neither are in the sources nor are written by a command before."""
    written = set()
    for line in examples:
        command = docs_test.Command(docs_test.ROOT / "README.md", 0, line, docs_test.words_of(line))
        outputs = command.files_written()
        named = {part for word in command.words for part in re.split(r"[,=]", word.split(" ")[0])
                 if "/" in part and "://" not in part and re.fullmatch(r"[\w./-]+", part)} | set(command.files_read())
        if command.verb() in ("export", "report", "checkpoints"):
            verbs = 2 if command.verb() == "checkpoints" else 1
            named |= {word for word in command.words[verbs:] if not word.startswith("-") and word not in command.value("--format")}
        for file in named - outputs - FILES_OF_READERS:
            if not (docs_test.ROOT / file).exists() and not any(file == out or file.startswith(out + "/") for out in written):
                yield f"{line}: {file}"
        written |= outputs


class Folder(unittest.TestCase):
    """A working directory with an experiment, a plan and a folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trireme-pages-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name in ("own.toml", "mine.json", "other.txt", "with space.toml"):
            open(os.path.join(self.folder, name), "w").close()
        os.mkdir(os.path.join(self.folder, "runs"))

    def script(self, shell):
        path = os.path.join(self.folder, "script." + shell)
        with open(path, "w") as f:
            f.write(output("--print-completion", shell))
        return path


class Bash(Folder):
    """An interactive bash on a terminal. Alt-* inserts all completions; a function in place of trireme prints its arguments."""

    def setUp(self):
        super().setUp()
        leader, follower = pty.openpty()
        self.leader = leader
        self.addCleanup(os.close, leader)
        self.shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=follower, stdout=follower, stderr=follower,
                                      cwd=self.folder, start_new_session=True,
                                      env={**os.environ, "TERM": "dumb", "PS1": "", "HISTFILE": "", "INPUTRC": os.devnull})
        os.close(follower)
        self.addCleanup(self.shell.wait)
        self.addCleanup(self.shell.kill)
        self.say(f"bind 'set completion-query-items -1'; source {self.script('bash')}; "
                 "trireme() { printf '\\n'; printf 'GOT<%s>\\n' \"$@\"; echo THE''END; }; stty -echo; echo THE''END\n")
        self.hear()

    def say(self, text):
        os.write(self.leader, text.encode())

    def hear(self):
        heard, end = "", time.monotonic() + 30
        while "THEEND" not in heard:
            if not select.select([self.leader], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"bash did not answer: {heard!r}")
            heard += os.read(self.leader, 4096).decode(errors="replace")
        return heard

    def complete(self, line):
        """All words after `trireme`, with the last word of the line replaced by all its completions."""
        self.say(f"{line}\x1b*\n")
        return re.findall(r"GOT<(.*?)>\r?\n", self.hear())

    def test_verbs(self):
        self.assertEqual(self.complete("trireme com"), ["compare"])
        self.assertEqual(set(self.complete("trireme ")), set(verbs_of(output("--help"))))
        self.assertEqual(self.complete("trireme plan s"), ["plan", "show"])
        self.assertEqual(self.complete("trireme data "), ["data", "get", "list"])
        self.assertEqual(self.complete("trireme launch -n 4 t"), ["launch", "-n", "4", "train"])
        self.assertEqual(self.complete("trireme help strat"), ["help", "strategies"])
        self.assertEqual(self.complete("trireme help plan gr"), ["help", "plan", "graph"])

    def test_options(self):
        self.assertEqual(set(self.complete("trireme train --")[1:]),
                         {name for name in options_of(output("train", "--help")) if name.startswith("--")})
        self.assertIn("--objective", self.complete("trireme plan best own.toml --"))
        self.assertEqual(self.complete("trireme launch -n 2 train own.toml --dev")[-1], "--devices")
        self.assertEqual(self.complete("trireme plan best --explain --obj")[-1], "--objective")

    def test_choices(self):
        self.assertEqual(self.complete("trireme export r --format ")[3:], ["onnx", "safetensors", "torchscript"])
        self.assertEqual(self.complete("trireme plan best own.toml --objective m")[-1], "memory")
        self.assertEqual(self.complete("trireme plan best own.toml --objective=m")[-1], "--objective=memory")
        self.assertEqual(self.complete("trireme train --backend=vi")[-1], "--backend=virtual")
        self.assertIn("zero3", self.complete("trireme train own.toml --plan "))
        self.assertIn("fedavg", self.complete("trireme train own.toml --plan f"))
        self.assertEqual(self.complete("trireme train own.toml --plan hybrid:t")[-1], "hybrid:tensor")
        self.assertEqual(self.complete("trireme train own.toml --plan=hybrid:t")[-1], "--plan=hybrid:tensor")
        self.assertEqual(self.complete("trireme compare own.toml --strategies single,hybrid:pi")[-1], "single,hybrid:pipeline")
        self.assertEqual(self.complete("trireme plan show --model resnet1")[-1], "resnet18")
        self.assertEqual(self.complete("trireme data get mni")[-1], "mnist")

    def test_files(self):
        self.assertEqual(set(self.complete("trireme compare ")[1:]), {"own.toml", "with space.toml", "runs/"})
        self.assertEqual(self.complete("trireme compare ow")[1:], ["own.toml"])
        self.assertEqual(self.complete("trireme plan show data own")[2:], ["data", "own.toml"])
        self.assertEqual(self.complete("trireme train own.toml --plan mi")[-1], "mine.json")
        self.assertEqual(self.complete("trireme train --data-dir ")[2:], ["runs/"])
        self.assertEqual(self.complete("trireme train --set \"checkpoint.every=100 steps\" ow")[3:], ["own.toml"])


class Scripts(Folder):
    def test_syntax(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                if not shutil.which(shell):
                    self.skipTest(f"{shell} is not installed")
                check = subprocess.run([shell, "-n", self.script(shell)], capture_output=True, text=True, timeout=60)
                self.assertEqual((check.returncode, check.stderr), (0, ""))

    def test_shellcheck(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed")
        check = subprocess.run(["shellcheck", "--shell=bash", self.script("bash")], capture_output=True, text=True, timeout=60)
        self.assertEqual((check.returncode, check.stdout), (0, ""))

    def test_fish_completes(self):
        if not shutil.which("fish"):
            self.skipTest("fish is not installed")

        def complete(line):
            ran = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C {line!r}"], capture_output=True, text=True,
                                 timeout=60, cwd=self.folder, env={**os.environ, "HOME": self.folder})
            self.assertEqual(ran.stderr, "")
            return [candidate.split("\t")[0] for candidate in ran.stdout.splitlines()]

        script = self.script("fish")
        self.assertEqual(complete("trireme com"), ["compare"])
        self.assertEqual(set(complete("trireme train --")),
                         {name for name in options_of(output("train", "--help")) if name.startswith("--")})
        self.assertEqual(complete("trireme launch -n 4 t"), ["train"])
        self.assertEqual(complete("trireme plan best own.toml --objective m"), ["memory"])
        self.assertEqual(complete("trireme compare own.toml --strategies single,zero3"), ["single,zero3"])
        self.assertIn("own.toml", complete("trireme compare ow"))
        self.assertIn("mine.json", complete("trireme train own.toml --plan m"))

    def test_wrong_usage(self):
        for words, says in (((), "takes one word"), (("bsh",), "did you mean bash?"), (("bash", "zsh"), "takes one word")):
            self.assertIn(says, output("--print-completion", *words, code=2))
        self.assertIn("known are compare", output("--print-man", "nothing", code=2))

    def test_version(self):
        self.assertRegex(output("--version"), r"^trireme \d+\.\d+\.\d+( \(commit \w+(-dirty)?\))?\nlibtorch \S+\nbackends local, .*\n$")

    def test_parse_only(self):
        self.assertEqual(output("--parse-only", "train", "nowhere.toml", "--plan", "data"), "")
        self.assertIn("did you mean --plan?", output("--parse-only", "train", "nowhere.toml", "--plann", "data", code=2))


class Help(unittest.TestCase):
    def test_every_page_fits_a_terminal(self):
        self.assertGreater(len(paths()), 20)
        for words in [*((*path, "--help") for path in paths()), *(("help", topic) for topic in TOPICS)]:
            for line in output(*words).splitlines():
                self.assertLessEqual(len(line), 80, f"{words}: {line}")

    def test_help_prints_the_page_of_a_verb(self):
        self.assertEqual(output(), output("--help"))
        for path in paths():
            self.assertEqual(output("help", *path), output(*path, "--help"), path)

    def test_lists_of_names(self):
        for topic, name in TOPICS.items():
            self.assertRegex(output("help", topic), rf"\b{name}\b")
            self.assertIn(topic, output("help", "--help").replace("\n", " "))

    def test_every_option_has_a_title(self):
        for path in paths():
            others = re.search(r"^Options:\n((?:  .*\n)+)", output(*path, "--help"), re.MULTILINE).group(1)
            self.assertLessEqual(options_of(others), {"-h", "--help", "--version"}, path)

    def test_two_examples_end_every_page_and_are_taken(self):
        """The last two show the verb. Those before write what they read."""
        for path in paths():
            examples = examples_of(output(*path, "--help"))
            self.assertGreaterEqual(len(set(examples)), 2, path)
            for line in examples:
                words = docs_test.words_of(line)
                verbs = [word for word in words if word in path]
                if line in examples[-2:]:
                    self.assertEqual(verbs[:len(path)], list(path), line)
                self.assertEqual(output("--parse-only", *words), "", line)

    def test_examples_read_files_that_are_there(self):
        missing = [line for path in paths() for line in files_missing(examples_of(output(*path, "--help")))]
        self.assertFalse(missing, "\n" + "\n".join(missing))

    def test_the_check_of_files_finds_what_is_missing(self):
        for examples, missing in (
                (["trireme export runs/mnist -o m.onnx"], 1), (["trireme train examples/no.toml"], 1),
                (["trireme train examples/mnist.toml --out runs/a", "trireme report runs/a runs/b"], 1),
                (["trireme train examples/mnist.toml --out run", "trireme checkpoints list run/checkpoints"], 0),
                (["trireme plan best examples/mnist.toml > best.json", "trireme train examples/mnist.toml --plan best.json"], 0),
                (["trireme join tcp://127.0.0.1:5555 examples/federated.toml"], 0)):
            self.assertEqual(len(list(files_missing(examples))), missing, examples)

    def test_wrong_words(self):
        for words, says in ((("trian",), "did you mean train?"), (("plan", "bst"), "did you mean best?"), (("plan", "best", "x"), "help plan best: \"x\": there are no verbs below"), (("modles",), "did you mean models?"),
                            (("doctor", "x"), "no verbs below"), (("nothing-like-it",), "known are compare")):
            said = output("help", *words, code=2)
            self.assertIn(says, said)
            self.assertEqual(said.count("\n"), 1)


class Front(unittest.TestCase):
    """The program that prints help pages without libtorch, and starts the other program for everything else."""

    PROPER = os.path.join(os.path.dirname(PROGRAM), "program", "trireme")

    def same(self, *words):
        by_proper = subprocess.run([self.PROPER, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(output(*words, code=by_proper.returncode), by_proper.stderr if by_proper.returncode else by_proper.stdout, words)

    def test_prints_what_the_program_proper_prints(self):
        for words in [("help", "plan", "best"), ("train", "-h"), ("help", "strategies"), (), ("--version",)]:
            self.same(*words)

    def test_pages_are_those_of_this_program(self):
        pages = os.path.join(os.path.dirname(self.PROPER), "help")
        with tempfile.TemporaryDirectory(prefix="trireme-help-") as folder:
            subprocess.run([self.PROPER, "--write-help", folder], check=True, timeout=60)
            self.assertEqual(sorted(os.listdir(pages)), sorted(os.listdir(folder)))
            self.assertFalse(filecmp.cmpfiles(pages, folder, os.listdir(folder), shallow=False)[1])

    def test_every_verb_has_a_page_under_both_spellings(self):
        for path in paths():
            self.assertIn(f"trireme {' '.join(path)}".strip(), output("help", *path))
            self.assertEqual(output("help", *path), output(*path, "--help"))

    def test_hands_over_what_is_no_page(self):
        for words in [("help", "../help/program"), ("help", "strategies", "x"), ("trian", "--help"), ("train", "own.toml", "--help"),
                      ("strategies", "--help"), ("help", "trireme"), ("help", "program")]:
            self.same(*words)

    def test_no_library_but_the_standard_one(self):
        libraries = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertNotRegex(libraries, "torch|mpi|openblas")

    def test_a_missing_program_proper_is_said(self):
        with tempfile.TemporaryDirectory(prefix="trireme-front-") as folder:
            alone = shutil.copy(PROGRAM, folder)
            ran = subprocess.run([alone, "doctor"], capture_output=True, text=True, timeout=60)
        self.assertEqual(ran.returncode, 127)
        self.assertRegex(ran.stderr, r"^trireme: .*/trireme: cannot be started: No such file or directory; build or install Trireme again\n$")


class Man(Folder):
    def pages(self):
        subprocess.run([PROGRAM, "--write-man", os.path.join(self.folder, "man")], check=True, timeout=60)
        folder = os.path.join(self.folder, "man")
        return {name: os.path.join(folder, name) for name in os.listdir(folder)}

    def test_every_verb_has_a_page(self):
        verbs = verbs_of(output("--help"))
        self.assertGreater(len(verbs), 10)
        self.assertEqual(set(self.pages()), {"trireme.1", *(f"trireme-{verb}.1" for verb in verbs)})

    def test_pages_have_every_option(self):
        for verb in verbs_of(output("--help")):
            page = output("--print-man", verb).replace("\\-", "-")
            below = [[verb, name] for name in verbs_of(output(verb, "--help"))] if verb != "launch" else []
            for words in [[verb], *below]:
                for option in options_of(output(*words, "--help")):
                    self.assertIn(f"\\fB{option}\\fR", page, f"{words}: {option}")
            examples = page.partition(".SH EXAMPLES\n")[2].replace("\\(dq", '"').replace("\\:", "")
            for example in examples_of(output(verb, "--help")):
                self.assertIn(example + "\n", examples)

    def test_printed_pages_are_the_written_ones(self):
        pages = self.pages()
        for name, words in (("trireme.1", []), ("trireme-plan.1", ["plan"])):
            with open(pages[name]) as f:
                self.assertEqual(f.read(), output("--print-man", *words))

    def test_groff_warns_of_nothing(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for name, path in self.pages().items():
            ran = subprocess.run(["groff", "-man", "-Tutf8", "-K", "utf8", "-ww", "-rF0", path], capture_output=True, text=True, timeout=60)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), name)
            self.assertIn("EXIT STATUS", re.sub(r"\x1b\[[\d;]*m|.\x08", "", ran.stdout), name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
