"""Checks of the documentation: links and anchors lead to existing places, and the program accepts every command that a page shows.
Usage: docs_test.py PROGRAM [unittest's arguments]"""
import concurrent.futures
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "cli"))
import forks  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ""  # set from the command line
PAGES = ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md", "docs/**/*.md", "examples/**/*.md")

# Words in commands that readers replace: the word that the parser gets, and the meaning.
PLACEHOLDERS = {
    "EXPERIMENT": ("examples/mnist.toml", "any experiment"),
    "EXPERIMENT.toml": ("examples/mnist.toml", "any experiment"),
    "RUN": ("run", "a run folder of the reader's"),
    "RUN/data-x2": ("run", "a row of a comparison of the reader's"),
    "FILE": ("file", "any file"),
    "STRATEGY": ("data", "any strategy"),
    "N": ("2", "any number"),
    "VERB": ("plan", "any verb"),
}
# Files that a command reads and no command of a page writes.
FILES_OF_READERS = {
    "own.pt": "a TorchScript model of the reader's",
    "own.toml": "an experiment with such a model",
    "task.toml": "an experiment on data of each client",
    "bert24_training.json": "a graph of dnn-partitioning's repository",
    "bert24_inference.json": "a graph of dnn-partitioning's repository",
    "best-here.json": "what plan best prints for this machine",
}
READ_ENDINGS = (".toml", ".json", ".pt")
# A key of an experiment in a text of the program; not a file such as "optimizer.h" or "cluster.toml".
KEY_IN_TEXT = re.compile(r"(?<![\w/.*-])((?:optimizer|model|data|checkpoint|update|cluster)"
                         r"(?:\.(?!(?:h|toml|json|pt|npy|pkl|tensors|index)\b)[a-z_]+)+)"
                         r"(?![\w.(/]*[\w(/])")
WRITES = ("--out", "--json", "-o", "--output")


def pages():
    return sorted({page for pattern in PAGES for page in ROOT.glob(pattern)})


def name_of(page):
    return page.relative_to(ROOT).as_posix()


# -- links

def without_code(text):
    """The text with code blocks and code spans blanked, line by line, so that line numbers stay."""
    lines, fence = [], None
    for line in text.splitlines():
        mark = re.match(r"\s*(```+|~~~+)", line)
        if fence:
            fence = None if mark and mark.group(1).startswith(fence) else fence
            lines.append("")
        elif mark:
            fence = mark.group(1)
            lines.append("")
        else:
            lines.append("" if line.startswith("    ") and (not lines or not lines[-1].strip()) else line)
            if line.startswith("    ") and lines[-1] == "":
                continue
    return re.sub(r"`[^`\n]*`", lambda code: " " * len(code.group()), "\n".join(lines))


def slug(heading):
    """The anchor of a heading on GitHub."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().rstrip("#").strip())
    text = re.sub(r"[`*]", "", text).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    found, fence = [], False
    for line in text.splitlines():
        if re.match(r"\s*(```|~~~)", line):
            fence = not fence
        heading = re.match(r"#{1,6} (.+)", line)
        if heading and not fence:
            name = slug(heading.group(1))
            earlier = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", known) is not None for known in found)
            found.append(f"{name}-{earlier}" if name in found and earlier else name)
    return set(found) | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def links(text):
    """Line number and target of every link."""
    plain = without_code(text)
    for match in re.finditer(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:src|href)=\"([^\"]+)\"|^\[[^\]]+\]:\s*(\S+)", plain,
                             re.MULTILINE):
        yield plain.count("\n", 0, match.start()) + 1, next(group for group in match.groups() if group)


def broken_links(page, root):
    text = page.read_text()
    for number, target in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue  # a link to another site
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        where = f"{page.relative_to(root).as_posix()}:{number}: {target}"
        if not file.exists():
            yield f"{where}: there is no such file"
        elif root not in file.parents and file != root:
            yield f"{where}: leads out of the project"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield f"{where}: the page has no heading of this anchor"


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        self.assertGreater(len(pages()), 30)
        found = [line for page in pages() for line in broken_links(page, ROOT)]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_every_page_is_reached_from_the_readme(self):
        reached, todo = set(), [ROOT / "README.md"]
        while todo:
            page = todo.pop()
            if page in reached or not page.exists() or page.suffix != ".md":
                continue
            reached.add(page)
            todo += [(page.parent / target.partition("#")[0]).resolve() for _, target in links(page.read_text())
                     if not re.match(r"[a-z][a-z0-9+.-]*:|#", target)]
        self.assertFalse([name_of(page) for page in pages() if page not in reached])


def groups_of_readme():
    """The pages in each row of the README's table of pages."""
    table = (ROOT / "README.md").read_text().partition("| page | about |")[2]
    return [re.findall(r"\]\(([^)#]+)\)", row.split("|")[1]) for row in table.splitlines()[2:] if row.startswith("|")]


def groups_of_site():
    """The pages in each group of mkdocs.yml's navigation."""
    groups = [[]]
    for line in (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].splitlines():
        if line.startswith("  - "):
            groups.append([])
        groups[-1] += re.findall(r": (\S+\.md)$", line)
    return [group for group in groups if group]


class Site(unittest.TestCase):
    def test_navigation_has_every_page_once(self):
        listed = [page for group in groups_of_site() for page in group]
        self.assertEqual(sorted(listed), sorted(set(listed)))
        self.assertFalse([name_of(page) for page in ROOT.glob("docs/*.md") if name_of(page) not in listed])

    def test_navigation_has_the_groups_of_the_readme(self):
        readme = groups_of_readme()
        self.assertGreater(len(readme), 5)
        site = [[page for page in group if any(page in row for row in readme)] for group in groups_of_site()]
        self.assertEqual([group for group in site if group], readme)

    def test_site_is_built_without_a_warning(self):
        if not shutil.which("mkdocs") or not pathlib.Path("/usr/share/mkdocs/themes/material").exists():
            self.skipTest("mkdocs and mkdocs-material are not installed")
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run([ROOT / "scripts" / "docs_site.sh", "--site-dir", folder], capture_output=True, text=True, timeout=120)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            index = pathlib.Path(folder, "search", "search_index.json").read_text()
            self.assertIn("Update policies", index)


class TheLinkCheck(unittest.TestCase):
    """Tests the check on two pages."""

    def broken(self, one, two="# Two\n"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            (root / "one.md").write_text(one)
            (root / "two.md").write_text(two)
            return list(broken_links(root / "one.md", root))

    def test_accepts_what_is_there(self):
        self.assertEqual(self.broken("# A, b: `c` (d)\n[x](#a-b-c-d) [y](two.md) [z](two.md#two) [w](https://x.y/z)\n"), [])

    def test_finds_what_is_not(self):
        self.assertEqual(len(self.broken("[x](three.md)\n[y](two.md#three) [z](#no) ![w](no.svg) [up](../..)\n")), 5)

    def test_takes_no_code_for_links(self):
        self.assertEqual(self.broken("`[x](no.md)`\n\n    [y](no.md)\n\n```\n[z](no.md)\n# B\n```\n"), [])
        self.assertEqual(len(self.broken("```\n# B\n```\n[b](#b)\n")), 1)

    def test_numbers_equal_headings(self):
        self.assertEqual(anchors("# A\n## A\n## A\n## B 1\n"), {"a", "a-1", "a-2", "b-1"})


# -- commands

def code_lines(text):
    """Line number and text of lines in code blocks; lines that end with a backslash are joined."""
    lines = text.splitlines()
    fence, number = None, 0
    while number < len(lines):
        line = lines[number]
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark:
            fence = None if fence else mark.group(1)
        elif fence or (line.startswith("    ") and line.strip()):
            first = number + 1
            while line.endswith("\\") and number + 1 < len(lines):
                number += 1
                line = line[:-1] + " " + lines[number].strip()
            yield first, line.strip()
        number += 1


START = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:(?:mpirun|srun|torchrun|taskset|time|nice)\b.*? )?(?:(?:\./)?build/|\./)?trireme (?=\S)")


def words_of(command):
    """Words after `trireme`, without a comment, a pipe or a redirection; None if the line is not a command."""
    start = START.match(command)
    if not start:
        return None
    lexer = shlex.shlex(command[start.end():], posix=True, punctuation_chars="|<>;&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words = []
    for word in lexer:
        if re.fullmatch(r"[|<>;&]+|2>", word):
            break
        words.append(word)
    return words


class Command:
    def __init__(self, page, number, text, words, in_sentence=False):
        self.in_sentence = in_sentence
        self.where, self.page, self.text = f"{name_of(page)}:{number}: {text}", page, text
        self.words = [PLACEHOLDERS.get(word, (word,))[0] for word in words]
        self.placeholders = [word for word in words if word in PLACEHOLDERS]

    def value(self, *options):
        """The values of these options in the command."""
        values = []
        for word, after in zip(self.words, self.words[1:] + [""]):
            if word in options:
                values.append(after)
            values += [word[len(option) + 1:] for option in options if word.startswith(option + "=")]
        return values

    def verb(self):
        return next((word for word in self.words if not word.startswith("-")), "")

    def experiment(self):
        return next((word for word in self.words[1:] if word.endswith(".toml") and word not in self.value("--cluster")), "")

    def files_written(self):
        return set(self.value(*WRITES)) | set(re.findall(r"> *(\S+)", self.text))

    def files_read(self):
        written = self.files_written()
        for word in self.words:
            for part in re.split(r"[,=]", word.split(" ")[0]) if word not in written else []:
                if part.endswith(READ_ENDINGS) and part not in written:
                    yield part


def commands():
    """The commands of all pages, in order."""
    found = []
    for page in pages():
        text = page.read_text()
        for number, line in code_lines(text):
            words = words_of(line)
            if words:
                found.append(Command(page, number, line, words))
        plain = re.sub(r"^(```+|~~~+).*?^\1|^    .*?$", lambda block: "\n" * block.group().count("\n"), text,
                       flags=re.MULTILINE | re.DOTALL)
        for span in re.finditer(r"`((?:\./)?(?:build/)?trireme [^`]+)`", plain):
            line = " ".join(span.group(1).split())
            words = words_of(line)
            if words and "..." not in words and "…" not in words and not any("|" in part for part in line.split("'")[::2]):
                found.append(Command(page, plain.count("\n", 0, span.start()) + 1, line, words, in_sentence=True))
    return found


@functools.cache
def run(*words, seconds=240):
    """Exit code and standard error."""
    ran = forks.run(PROGRAM, words, ROOT, os.environ, seconds)
    return ran.returncode, ran.stderr.strip()


def in_parallel(job, items):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(job, items))


class Commands(unittest.TestCase):
    def setUp(self):
        self.commands = commands()

    def test_are_found(self):
        self.assertGreater(len(self.commands), 80)
        self.assertGreater(len({command.verb() for command in self.commands}), 10)

    def test_are_taken_by_the_program(self):
        def fault(command):
            if command.words[0].startswith("--write-"):
                return ""  # tests/cli/pages_test.py
            code, message = run(*([] if command.words[0].startswith("--print-") else ["--parse-only"]), *command.words)
            if command.in_sentence and re.search(r" is missing \(|: 1 required ", message):
                message = unknown_names(command)
            return f"{command.where}\n    {message}" if message else ""

        found = [line for line in in_parallel(fault, self.commands) if line]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_read_files_that_are_there(self):
        written, found = {}, []
        for command in self.commands:
            known = written.setdefault(command.page, set())
            for file in command.files_read():
                if file not in known and file not in FILES_OF_READERS and not (ROOT / file).exists():
                    found.append(f"{command.where}\n    {file} is not there, and no command above writes it")
            known |= command.files_written()
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_no_exception_is_left_over(self):
        used = {word for command in self.commands for word in command.placeholders}
        self.assertFalse(sorted(set(PLACEHOLDERS) - used), "placeholders that no command has")
        read = {file for command in self.commands for file in command.files_read()}
        self.assertFalse(sorted(set(FILES_OF_READERS) - read), "files that no command reads")

    def test_set_keys_that_experiments_have(self):
        cases = {}
        for command in self.commands:
            experiment = command.experiment()
            if command.value("--set") and (ROOT / experiment).is_file():
                cases.setdefault((experiment, *command.value("--set")), command)

        def fault(case):
            experiment, *assignments = case
            code, message = run("plan", "show", "single", experiment, *(word for one in assignments for word in ("--set", one)))
            known = code == 0 or "not found: searched" in message
            return "" if known else f"{cases[case].where}\n    {message}"

        self.assertGreater(len(cases), 5)
        found = [line for line in in_parallel(fault, cases) if line]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_keys_in_messages_are_keys_of_experiments(self):
        found = {}
        for file in sorted((ROOT / "src").rglob("*.cpp")):
            for line in file.read_text(encoding="utf-8").splitlines():
                texts = [] if line.startswith("#include") else re.findall(r'"((?:[^"\\]|\\.)*)"', line)
                for key in KEY_IN_TEXT.findall("\n".join(texts)):
                    found.setdefault(key, f"{file.relative_to(ROOT)}: {line.strip()}")

        def fault(key):
            _, message = run("plan", "show", "single", "examples/mnist.toml", "--set", f"{key}=1")
            return f"{found[key]}\n    {message}" if "unknown key" in message else ""

        self.assertGreater(len(found), 30)
        wrong = [line for line in in_parallel(fault, found) if line]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_name_plans_that_there_are(self):
        """A run into a folder that is not empty ends after its plans are made, before it trains."""
        cases = {}
        for command in self.commands:
            verb = command.verb()
            plans = command.value("--strategies") if verb in ("compare", "simulate") else command.value("--plan")
            for plan in plans:
                plan = re.sub(",local_parameters=[^,]*", "", plan)  # names parameters of another model than the one here
                files = [part for part in plan.split(",") if part.endswith(".json")]
                if any(not (ROOT / file).exists() for file in files):
                    plan = ",".join(part for part in plan.split(",") if part not in files)  # an earlier command writes it
                if plan and verb in ("compare", "simulate"):
                    cases.setdefault(("compare", "--no-predict", "--strategies", plan), command)
                elif plan:
                    cases.setdefault(("train", "--plan", plan), command)

        def fault(case):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "taken").write_text("")
                code, message = run(case[0], "examples/mnist.toml", *case[1:], "--out", folder)
            return "" if code == 2 and "exists already" in message else f"{cases[case].where}\n    {message}"

        self.assertGreater(len(cases), 10)
        found = [line for line in in_parallel(fault, cases) if line]
        self.assertFalse(found, "\n" + "\n".join(found))


def unknown_names(command):
    """For a command in a sentence, which may leave out required arguments: its verbs and options that do not exist."""
    verbs = [word for word in command.words if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")]
    ran = subprocess.run([PROGRAM, *verbs[:2 if verbs[0] in ("plan", "data", "checkpoints") else 1], "--help"], capture_output=True,
                         text=True, timeout=60, cwd=ROOT)
    options = [word.partition("=")[0] for word in command.words if word.startswith("-")]
    missing = [option for option in options if not re.search(rf"^  (-\w,)?{re.escape(option)}\b", ran.stdout, re.MULTILINE)]
    return ran.stderr.strip() or ", ".join(f"{option}: unknown flag" for option in missing)


class TheCommandCheck(unittest.TestCase):
    """Tests how commands are found in pages."""

    def test_words(self):
        self.assertEqual(words_of("trireme train e.toml --set \"a=1 b\"   # why"), ["train", "e.toml", "--set", "a=1 b"])
        self.assertEqual(words_of("$ trireme plan show data | head"), ["plan", "show", "data"])
        self.assertEqual(words_of("trireme plan best e.toml > best.json"), ["plan", "best", "e.toml"])
        self.assertEqual(words_of("mpirun -n 4 trireme train e.toml"), ["train", "e.toml"])
        self.assertEqual(words_of("build/trireme doctor"), ["doctor"])
        self.assertEqual(words_of("trireme: unknown flag"), None)
        self.assertEqual(words_of("/usr/lib/trireme x"), None)

    def test_lines(self):
        self.assertEqual(list(code_lines("a\n\n    b \\\n      c\n\n```\nd\n```\ne\n")), [(3, "b  c"), (7, "d")])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
