"""Each name has one place: the name of a schedule, strategy, backend, optimizer, model or update policy is a string literal in its own file (or
registry) only, alone or with keys after it ("zero3,recompute=all"). The test reads the names from their declarations.
Usage: names_test.py SOURCE_FOLDER"""

import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"

# Kinds of names: the files that declare them, and the pattern of a declaration.
DECLARED = {
    "schedule": ("schedule/*.cpp", r'\.name = "([^"]+)"'),
    "strategy": ("plan/strategies.cpp", r'(?:\.name = |PlannedStrategy \w+ = \{)"([^"]+)"'),
    "optimizer sharding": ("plan/plan.cpp", r'case OptimizerSharding::zero\w+: return "([^"]+)"'),
    "backend": ("comm/*/*_backend.cpp", r'\.name = "([^"]+)"'),
    "optimizer": ("runtime/optimizers/*.cpp", r'\.name = "([^"]+)"'),
    "model": ("zoo/*.cpp", r'\{"([^"]+)",\s+(?:(?:"[^"]*"|\w+),\s+)?make_'),
    "update policy": ("update/*.cpp", r'\.name = "([^"]+)"'),
}

FOLDERS = ("backend", "update policy")  # kinds that may use their name in their whole folder

# Names that are ordinary words: the rest of the line tells if the name is meant.
ABOUT_PLANS = r"named_plan|make_plan|strateg|\bplan\s*(?:==|!=|=|,|\{|\()"
ORDINARY = {"data": ABOUT_PLANS, "tensor": ABOUT_PLANS, "pipeline": ABOUT_PLANS, "local": "backend", "virtual": "backend"}

# Names with another meaning in a file: (end of its path, name): the meaning there.
OTHER_MEANINGS = {
    ("cli/launch_script.cpp", "mpi"): "a kind of job script: mpirun's, whatever the backend",
    ("cli/commands.h", "pipedream"): "a published cost model of --graph",
    ("cli/plan_graph.cpp", "pipedream"): "a published cost model of --graph",
    ("model/model.cpp", "inception"): "a piece of layers' names",
    ("/initial_weights.cpp", "partial"): "how files of weights match",
    ("/read_data.cpp", "skip"): "what happens to broken files",
    ("update/downpour.cpp", "sgd"): "a server's optimizer",
    ("update/downpour.cpp", "adagrad"): "a server's optimizer",
    ("update/server_optimizer.cpp", "adam"): "a server's optimizer",
    ("update/server_optimizer.cpp", "adagrad"): "a server's optimizer",
}

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*', re.DOTALL | re.MULTILINE)


def literals(text):
    """String literals of C++ code with their line numbers, without those in comments and directives."""
    blank = lambda match: match.group(0) if match.group(0).startswith('"') else re.sub(r"[^\n]", " ", match.group(0))
    code = re.sub(LITERAL.pattern + "|" + NOT_CODE.pattern, blank, text, flags=re.DOTALL | re.MULTILINE)
    return [(code.count("\n", 0, match.start()) + 1, match.group(1)) for match in LITERAL.finditer(code)]


def declared_names(source):
    """By name: its kind, and the file or folder that may use it."""
    names = {}
    for what, (pattern, declares) in DECLARED.items():
        for file in sorted(source.glob(pattern)):
            for name in re.findall(declares, file.read_text()):
                names.setdefault(name, []).append((what, file.parent if what in FOLDERS else file))
    return names


def violations(source, other_meanings):
    names = declared_names(source)
    used, found = set(), []
    for file in sorted(path for path in source.rglob("*") if path.suffix in (".h", ".cpp")):
        text = file.read_text()
        lines = text.splitlines()
        path = str(file.relative_to(source))
        for number, literal in literals(text):
            name = literal.split(",")[0]  # keys may follow
            if name not in names or any(owner == file or owner in file.parents for _, owner in names[name]):
                continue
            if name in ORDINARY and not re.search(ORDINARY[name], lines[number - 1]):
                continue
            meaning = next((key for key in other_meanings if key[1] == name and path.endswith(key[0])), None)
            if meaning:
                used.add(meaning)
                continue
            what, owner = names[name][0]
            found.append(f'{path}:{number}: "{literal}" is a name ({what}): take it from {owner.relative_to(source)}')
    return found + [f'{end}: "{name}" is not there any more' for end, name in other_meanings if (end, name) not in used]


class Names(unittest.TestCase):
    def test_stand_in_one_place(self):
        found = violations(SOURCE, OTHER_MEANINGS)
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_are_found(self):
        counts = {what: 0 for what in DECLARED}
        for owners in declared_names(SOURCE).values():
            for what, _ in owners:
                counts[what] += 1
        for what, count in counts.items():
            self.assertGreater(count, 2, what)


class TheCheck(unittest.TestCase):
    """Tests the check on a few files."""

    def sources(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = pathlib.Path(folder.name)
        owners = {"schedule/a.cpp": '.name = "zig-zag"', "plan/strategies.cpp": '{.name = "data", 1}, {.name = "single"}',
                  "comm/tcp/tcp_backend.cpp": '.name = "tcp",'}
        for name, text in (owners | files).items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        return source

    def places(self, files, other_meanings={}):
        return [line.split(": ")[0] for line in violations(self.sources(files), other_meanings)]

    def test_finds_names_alone_and_with_keys(self):
        self.assertEqual(self.places({"cli/a.cpp": '\nf("zig-zag");\n', "cli/b.h": 'x = "zig-zag,chunks=2";\n',
                                      "comm/tcp/c.cpp": 'f("tcp")'}),
                         ["cli/a.cpp:2", "cli/b.h:1"])

    def test_lets_comments_includes_and_sentences_pass(self):
        self.assertEqual(self.places({"cli/a.cpp": '// "zig-zag"\n#include "single"\n/* "tcp"\n"tcp" */ f("not zig-zag, \\"tcp\\"");\n'}),
                         [])

    def test_knows_ordinary_words_by_their_line(self):
        self.assertEqual(self.places({"cli/a.cpp": 'b.input("data");\nnamed_plan("data", m);\nplan == "data";\n'}),
                         ["cli/a.cpp:2", "cli/a.cpp:3"])

    def test_other_meanings_must_be_there(self):
        files = {"cli/a.cpp": 'f("single");'}
        self.assertEqual(self.places(files, {("cli/a.cpp", "single"): "a word"}), [])
        self.assertEqual(self.places(files, {("cli/a.cpp", "single"): "a word", ("cli/a.cpp", "tcp"): "gone"}), ["cli/a.cpp"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SOURCE = pathlib.Path(sys.argv.pop(1))
    unittest.main()
