"""Divides source files into groups that can be compiled as one file each: no two files of a group declare the same name at namespace level.
Usage: unity_groups.py SIZE FILE... Prints a line per group: its files, separated by ';'. Finds declarations at the beginning of a line, as in
formatted sources. A name that it misses leads to a compiler error, never to a silent change."""

import pathlib
import re
import sys

DECLARED = [
    re.compile(r"(?:struct|class|union|enum class|enum|using|concept)\s+(?:\w+::)*(\w+)\s*[;:={]"),
    re.compile(r"(?:struct|class|union|enum class|enum)\s+(\w+) final"),
    re.compile(r"#define (\w+)"),
    re.compile(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST)\((\w+), ?(\w+)"),
    re.compile(r"INSTANTIATE_TEST_SUITE_P\((\w+)"),
    re.compile(r"[\w:<>,&*\s\[\]()]*?\b(\w+)\("),      # a function: the name before the first parenthesis
    re.compile(r"[\w:<>,&*\s]*?\b(\w+)\s*(?:\[[^\]]*\])?\s*[={;]"),  # a variable
]
REPEATABLE = re.compile(r"using namespace|using [\w:]*::|namespace|static_assert|extern|TYPED_TEST_SUITE|template")


def declared(path):
    """Names that the file declares at namespace level; tests as "Suite.Name"."""
    names = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line[0] in " }/)" or REPEATABLE.match(line):
            continue
        for pattern in DECLARED:
            if match := pattern.match(line):
                names.add(".".join(match.groups()))
                break
        if line.startswith(("constexpr", "const ", "static", "inline")):  # several variables of one declaration
            names.update(re.findall(r"\b(\w+) = ", line))
    return names


def groups_of(files, size):
    groups = []  # lists of files, with the union of their names
    for file in files:
        names = declared(pathlib.Path(file))
        for group, taken in groups:
            if len(group) < size and not names & taken:
                group.append(file)
                taken |= names
                break
        else:
            groups.append(([file], set(names)))
    return [group for group, _ in groups]


if __name__ == "__main__":
    for group in groups_of(sys.argv[2:], int(sys.argv[1])):
        print(";".join(group))
