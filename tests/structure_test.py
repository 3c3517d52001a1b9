"""Checks the structure of the sources. A room includes only rooms earlier in src/CMakeLists.txt. Headers have #pragma once (or state that they
are included several times). Files have at most 500 lines, folders at most 40 files. Files of a room do not include each other in a circle.
Comments of public headers name only public headers. Only a layer's own file asks for a layer by its kind, and only a data set's own file uses its
name. Usage: structure_test.py SOURCE_FOLDER"""

import collections
import pathlib
import re
import sys
import tempfile
import unittest

LONGEST_FILE = 500
MOST_FILES = 40  # files directly in a folder
LISTS = {  # folders that list things of one kind may have more
    "model/layers": "kinds of layers",
    "zoo": "models",
    "update": "update policies",
    "data": "data sets and their readers",
    "cli": "verbs",
}
KNOWN_LARGE = set()
# include/trireme/: which room a public header belongs to; those of layers/ belong to model.
PUBLIC = {
    "base": ("config", "error"),
    "comm": ("backend", "communicator"),
    "tensor": ("placement",),
    "model": ("layer", "layers", "model"),
    "zoo": ("zoo",),
    "data": ("dataset",),
    "schedule": ("schedule",),
    "update": ("hub", "policy"),
    "plan": ("cluster", "plan"),
    "library": ("program", "workload"),
    "cli": ("trireme",),
}
REPEATED_HEADER = "No include guard on purpose"  # a header with these words needs no #pragma once
ENGLISH_WORDS = ("digits", "folder", "csv", "tensors", "text")  # names of data sets that also have other meanings
ENTRY_ROOM = "cli"  # the program: has no trireme_room line, may include every room
# Files that may name kinds of layers, because they make layers and name them by kind.
LAYER_MAKERS = ("model/layers/", "model/import/", "zoo/")
# Kinds whose names have other meanings too: a rate rule, a client's chance to drop out, a key of experiments, a store's command, ...
COMMON_WORDS = {"add", "batch_norm", "dropout", "linear", "slice"}
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"


def rooms_of(source):
    """The rooms, in the order of src/CMakeLists.txt."""
    text = (source / "CMakeLists.txt").read_text()
    return re.findall(r"^\s*trireme_room\(\s*(\w+)", text, re.MULTILINE) + [ENTRY_ROOM]


def room_of(header, rooms):
    """The room of a header, given its path in an include; None for a generated or a system header."""
    parts = pathlib.PurePosixPath(header).parts
    if parts[0] != "trireme":
        return parts[0] if parts[0] in rooms else None
    if parts[1] == "layers":
        return "model"
    owners = [room for room, names in PUBLIC.items() if pathlib.PurePosixPath(parts[1]).stem in names]
    return owners[0] if owners else "nowhere"


def public_violations(source, rooms):
    """Public headers include only public headers of their own or an earlier room, because a program outside has no others."""
    folder = source.parent / "include"
    found = []
    for path in sorted(folder.rglob("*.h")):
        name = path.relative_to(folder).as_posix()
        room = room_of(name, rooms)
        if room not in rooms:
            found.append(f"include/{name}: belongs to no room: name it in PUBLIC of structure_test.py")
            continue
        lines = path.read_text().splitlines()
        if "#pragma once" not in lines:
            found.append(f"include/{name}: a header without #pragma once")
        found += private_mentions(folder, path, lines)
        for number, line in enumerate(lines, 1):
            if match := re.match(r'\s*#\s*include\s*"([^"]+)"', line):
                if not match.group(1).startswith("trireme/"):
                    found.append(f'include/{name}:{number}: includes "{match.group(1)}", which is not public')
                elif rooms.index(room_of(match.group(1), rooms)) > rooms.index(room):
                    found.append(f'include/{name}:{number}: {room} includes "{match.group(1)}" of a room later in the list')
    return found


def private_mentions(folder, path, lines):
    """Comments of a public header name only public headers, because readers of installed headers have no others. Names are paths below include/
    or include/trireme/, or relative to the header's folder."""
    found = []
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#\s*include", line) or "//" not in line:
            continue
        for named in re.findall(r"[\w./-]*\w\.h\b", line.split("//", 1)[1]):
            if not any((root / named).is_file() for root in (folder, folder / "trireme", path.parent)):
                found.append(f"include/{path.relative_to(folder).as_posix()}:{number}: its comment names {named}, "
                             "which is not a public header")
    return found


def violations(source):
    rooms = rooms_of(source)
    found = public_violations(source, rooms)
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
    found += large_folders(source, files)
    found += [f"{circle[0]}: in a circle of includes: {', '.join(circle)}" for circle in circles(source, files)]
    found += kinds_by_name(source, files)
    found += defined_twice(source, files)
    return found


def defined_twice(source, files):
    """Types with the same name and namespace in two headers, which break the one definition rule: the linker may mix up their functions."""
    places = collections.defaultdict(list)
    public = sorted((source.parent / "include").rglob("*.h"))
    for path in [*files, *public]:
        if path.suffix != ".h":
            continue
        namespace = ""
        for line in path.read_text().splitlines():
            if opened := re.match(r"namespace (trireme[\w:]*) \{", line):
                namespace = opened.group(1)
            if defined := re.match(r"(?:struct|class) (?:alignas\(\d+\) )?(\w+)(?: final)?(?: : [^{;]*)? \{", line):
                places[namespace, defined.group(1)].append(path.relative_to(source.parent if path in public else source).as_posix())
    return [f"{files[0]}: {name} is defined in {files[1]} too: rename one"
            for (_, name), files in sorted(places.items()) if len(set(files)) > 1]


def kinds_of_layers(source):
    kinds = set()
    for path in sorted([*source.glob("model/layers/*"), *(source.parent / "include/trireme/layers").glob("*.h")]):
        for body in re.findall(r"kind\(\) const (?:override )?\{(.*?)\}(?=\n)", path.read_text(), re.DOTALL):
            kinds.update(re.findall(r'"(\w+)"', body))
    return kinds


def kinds_by_name(source, files):
    """Comparisons of a layer's kind outside its own file. Only that file states facts about the kind (trireme/layer.h)."""
    kinds = kinds_of_layers(source) - COMMON_WORDS
    asks = re.compile(r'kind\(\)\s*[!=]=\s*"|"\s*[!=]=\s*[\w.>()-]*kind\(\)|kind\(\)\.(find|starts_with|ends_with|contains)\b')
    found = []
    for path in files:
        name = path.relative_to(source)
        maker = str(name).startswith(LAYER_MAKERS)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if asks.search(line):
                found.append(f"{name}:{number}: asks for a layer by its kind: make it a virtual function of Layer")
            named = kinds.intersection(re.findall(r'"(\w+)"', line))
            if named and not maker:
                found.append(f"{name}:{number}: names a kind of layer, {sorted(named)[0]}: its own file says what is true of it")
    return found


def large_folders(source, files):
    counts = collections.Counter(path.parent.relative_to(source).as_posix() for path in files)
    return [f"{folder}/: {count} files, more than {MOST_FILES}: divide it" for folder, count in sorted(counts.items())
            if count > MOST_FILES and folder not in LISTS and folder not in KNOWN_LARGE]


def circles(source, files):
    """Files of a room that include each other in a circle; a header and a source of the same name count as one. Each circle is sorted."""
    graph = collections.defaultdict(set)
    for path in files:
        stem = path.relative_to(source).with_suffix("").as_posix()
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE):
            other = pathlib.PurePosixPath(header).with_suffix("").as_posix()
            if other != stem and other.split("/")[0] == stem.split("/")[0]:
                graph[stem].add(other)
    reached = {stem: reachable(graph, stem) for stem in list(graph)}
    found = {tuple(sorted(other for other in reached[stem] if stem in reached.get(other, ()))) for stem in reached}
    return [list(circle) for circle in sorted(found) if circle]


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for other in graph.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


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
        target = room_of(header, rooms)
        generated = header.endswith(".pb.h")  # protoc writes it into the build folder
        if header.startswith(".") or ("/" not in header and not generated):
            found.append(f'{name}:{number}: "{header}" is not written from src/ on')
        elif target in rooms and rooms.index(target) > rooms.index(room):
            found.append(f'{name}:{number}: {room} includes "{header}", but {target} is later in the list of src/CMakeLists.txt')
    return found


def data_set_names(source):
    """By file of data/sets/: the name of its data set."""
    names = {}
    for path in sorted((source / "data" / "sets").glob("*.cpp")):
        found = re.findall(r'\.name = "([^"]+)"', path.read_text())
        names[path] = found[0] if len(found) == 1 else None
    return names


def named_data_sets(source):
    """Literals with a data set's name outside its own file. Names that are English words have other meanings too: they count only as the value of
    something called name, or beside another data set's name."""
    names = data_set_names(source)
    found = [f"{path.relative_to(source)}: not one data set" for path, name in names.items() if name is None]
    for path in sorted(path for path in source.rglob("*") if path.suffix in (".h", ".cpp", ".cu")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "#include" in line:
                continue
            words = [word for word in re.findall(r'"([^"]*)"', line.split("//")[0]) if word in names.values() and word != names.get(path)]
            of_a_name = re.search(r'\bname\w*(\(\))?\s*[!=]?=\s*"', line)
            if words and (of_a_name or len(words) > 1 or words[0] not in ENGLISH_WORDS):
                found.append(f"{path.relative_to(source)}:{number}: the data set {words[0]} by its name: "
                             "its description states what is needed")
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
    """Tests the check on a small house with and without faults."""

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

    def test_finds_layers_asked_for_by_kind(self):
        layer = '#pragma once\nstd::string_view kind() const override { return odd_ ? "odd_one" : "even_one"; }\n'
        source = self.house({"model/layers/one.h": layer, "model/import/a.cpp": 'name(op, "odd_one");\n',
                             "base/a.cpp": '\ncosts["even_one"];\nadd("linear");\n', "comm/b.cpp": 'if (layer->kind() == "x") return;\n'})
        found = [line.split(": ")[0] for line in violations(source) if not line.startswith("model/")]
        self.assertEqual(found, ["base/a.cpp:2", "comm/b.cpp:1"])

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

    def test_finds_folders_with_too_many_files(self):
        names = [f"f{i}.h" for i in range(MOST_FILES + 1)]
        source = self.house({f"{folder}/{name}": "#pragma once\n" for folder in ("base/many", "comm") for name in names[:-1]})
        self.assertEqual(violations(source), [])
        (source / "comm" / names[-1]).write_text("#pragma once\n")
        self.assertEqual([line.split(":")[0] for line in violations(source)], ["comm/"])

    def test_finds_private_headers_in_the_comments_of_public_ones(self):
        source = self.house({"src/CMakeLists.txt": "trireme_room(base LIBRARIES x)\n",
                             "src/base/secret.h": "#pragma once\n",
                             "include/trireme/error.h": "// As config.h, trireme/config.h and docs/errors.html say.\n#pragma once\n",
                             "include/trireme/config.h": "#pragma once\n#include <x.h>  // for y\n"
                                                         "int x;  ///< see base/secret.h\n"}) / "src"
        self.assertEqual(violations(source),
                         ["include/trireme/config.h:3: its comment names base/secret.h, which is not a public header"])

    def test_finds_types_that_are_defined_twice(self):
        one = "#pragma once\nnamespace trireme {\nstruct Part {\n"
        other = "#pragma once\nnamespace trireme {\nclass Part final : public Whole {\n"
        source = self.house({"base/a.h": one, "base/b.h": other, "comm/c.h": one.replace("trireme", "trireme::torchscript")})
        self.assertEqual(violations(source), ["base/a.h: Part is defined in base/b.h too: rename one"])

    def test_finds_circles(self):
        source = self.house({"base/a.h": "#pragma once\n", "base/a.cpp": '#include "base/a.h"\n#include "base/b.h"\n',
                             "base/b.h": '#pragma once\n#include "base/c/d.h"\n', "base/c/d.h": "#pragma once\n",
                             "base/c/d.cpp": '#include "base/c/d.h"\n#include "base/a.h"\n',
                             "base/e.cpp": '#include "base/a.h"\n#include "base/b.h"\n'})
        self.assertEqual(violations(source), ["base/a: in a circle of includes: base/a, base/b, base/c/d"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SOURCE = pathlib.Path(sys.argv.pop(1))
    unittest.main()
