"""Holds the house to its rules: a room includes only rooms above it in src/CMakeLists.txt, headers have #pragma once
(or say that they are included several times), files stay within 500 lines, and a data set is called by its name in its own file only.
Usage: structure_test.py SOURCE_FOLDER"""

import pathlib
import re
import sys
import tempfile
import unittest

LONGEST_FILE = 500
REPEATED_HEADER = "No include guard on purpose"  # the words by which a header exempts itself
ENGLISH_WORDS = ("digits", "folder", "csv", "tensors", "text")  # names of data sets, and of other things
ENTRY_ROOM = "cli"  # the program itself: no trireme_room line, may include every room
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"


def rooms_of(source):
    """The rooms, from the ground up, as src/CMakeLists.txt lists them."""
    text = (source / "CMakeLists.txt").read_text()
    return re.findall(r"^\s*trireme_room\(\s*(\w+)", text, re.MULTILINE) + [ENTRY_ROOM]


def violations(source):
    rooms = rooms_of(source)
    found = []
    for folder in sorted(path for path in source.iterdir() if path.is_dir()):
        if folder.name not in rooms:
            found.append(f"{folder.name}/: not a room of src/CMakeLists.txt")
    files = sorted(path for path in source.rglob("*") if path.suffix in (".h", ".cpp", ".cu"))
    for path in files:
        name = path.relative_to(source)
        lines = path.read_text().splitlines()
        if len(lines) > LONGEST_FILE:
            found.append(f"{name}: {len(lines)} lines, more than {LONGEST_FILE}: split it")
        guarded = "#pragma once" in lines or any(REPEATED_HEADER in line for line in lines)
        if path.suffix == ".h" and not guarded:
            found.append(f"{name}: a header without #pragma once")
        found += bad_includes(source, rooms, name, lines)
    return found


def bad_includes(source, rooms, name, lines):
    room = name.parts[0]
    if room not in rooms:
        return []
    found = []
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if not match:
            continue
        header = match.group(1)
        target = pathlib.PurePosixPath(header).parts[0]
        generated = header.endswith(".pb.h")  # by protoc, into the build folder
        if header.startswith(".") or ("/" not in header and not generated):
            found.append(f'{name}:{number}: "{header}" is not written from src/ on')
        elif target in rooms and rooms.index(target) > rooms.index(room):
            found.append(f'{name}:{number}: {room} includes "{header}", but {target} stands above it in the house')
    return found


def data_set_names(source):
    """By file of data/sets/: the name of the data set that it describes."""
    names = {}
    for path in sorted((source / "data" / "sets").glob("*.cpp")):
        found = re.findall(r'\.name = "([^"]+)"', path.read_text())
        names[path] = found[0] if len(found) == 1 else None
    return names


def named_data_sets(source):
    """Literals that are a data set's name outside its own file. Names that are English words have other meanings too: they count as the value
    of something called name, and beside another data set's name."""
    names = data_set_names(source)
    found = [f"{path.relative_to(source)}: not one data set" for path, name in names.items() if name is None]
    for path in sorted(path for path in source.rglob("*") if path.suffix in (".h", ".cpp", ".cu")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "#include" in line:
                continue
            words = [word for word in re.findall(r'"([^"]*)"', line.split("//")[0]) if word in names.values() and word != names.get(path)]
            of_a_name = re.search(r'\bname\w*(\(\))?\s*[!=]?=\s*"', line)
            if words and (of_a_name or len(words) > 1 or words[0] not in ENGLISH_WORDS):
                found.append(f"{path.relative_to(source)}:{number}: the data set {words[0]} by its name: let its description say what is asked")
    return found


class TheHouse(unittest.TestCase):
    def test_keeps_its_rules(self):
        found = violations(SOURCE)
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_calls_data_sets_by_name_in_their_own_files_only(self):
        self.assertGreater(len(data_set_names(SOURCE)), 15)
        found = named_data_sets(SOURCE)
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_has_rooms(self):
        self.assertEqual(rooms_of(SOURCE)[0], "base")


class TheCheck(unittest.TestCase):
    """The check itself, on a small house with and without faults."""

    def house(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = pathlib.Path(folder.name)
        (source / "CMakeLists.txt").write_text("trireme_room(base LIBRARIES x)\ntrireme_room(comm DEPENDS base)\n")
        for name, text in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        return source

    def test_accepts_a_house_in_order(self):
        source = self.house({"base/a.h": "#pragma once\n",
                             "comm/local/b.cpp": '#include "base/a.h"\n#include "comm/c.h"\n',
                             "cli/main.cpp": '#include "comm/c.h"\n#include <vector>\n'})
        self.assertEqual(violations(source), [])

    def test_finds_an_arrow_up(self):
        source = self.house({"base/deep/a.cpp": '\n#include "comm/c.h"\n', "comm/b.cpp": '#include "cli/main.h"\n'})
        self.assertEqual([line.split(": ")[0] for line in violations(source)], ["base/deep/a.cpp:2", "comm/b.cpp:1"])

    def test_finds_long_files_bare_headers_and_strange_rooms(self):
        source = self.house({"base/a.h": "int x;\n", "base/b.cpp": "\n" * (LONGEST_FILE + 1), "attic/c.cpp": ""})
        self.assertEqual([line.split(":")[0] for line in violations(source)], ["attic/", "base/a.h", "base/b.cpp"])

    def test_finds_names_of_data_sets(self):
        sets = {"data/sets/faces.cpp": 'return {.name = "faces"};\n', "data/sets/text.cpp": 'return {.name = "text"};\n'}
        self.assertEqual(named_data_sets(self.house({**sets, "base/a.cpp": 'out("text"); // "faces"\n'})), [])
        source = self.house({**sets, "base/a.cpp": 'if (x == "faces") y();\nif (spec.name == "text") y();\nz({"text", "faces"});\n',
                             "data/sets/two.cpp": '.name = "a", .name = "b"\n'})
        self.assertEqual([line.split(": ")[0] for line in named_data_sets(source)],
                         ["data/sets/two.cpp", "base/a.cpp:1", "base/a.cpp:2", "base/a.cpp:3"])

    def test_finds_relative_includes(self):
        source = self.house({"base/a.cpp": '#include "a.h"\n#include "../comm/b.h"\n'})
        self.assertEqual(len(violations(source)), 2)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SOURCE = pathlib.Path(sys.argv.pop(1))
    unittest.main()
