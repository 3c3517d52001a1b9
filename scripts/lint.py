#!/usr/bin/env python3
"""Clang's checks of the C++ files, without a build: clang-tidy, and whether code holds locks as the annotations of src/base/mutex.h require.

    scripts/lint.py tidy            # findings in lines that changed since the base commit
    scripts/lint.py thread-safety   # files of src/ that changed since then, if they use annotated locks
    scripts/lint.py tidy --all      # all files: hours; thread-safety --all: minutes
    scripts/lint.py tidy --files src/base/threads.cpp

The base is CHECK_BASE of the environment. If it is not set, the base is the commit at which HEAD left main; on main itself, the commit 20 before
HEAD. Changes by commits of .git-blame-ignore-revs do not count. The newest changes come first. Files beyond --most and --seconds are left out and
reported. A changed header is checked in one file that includes it.

Most of the time goes into libtorch's headers, so files are compiled together where possible. The exit status is 1 if a check found something.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-check"
FOLDERS = ("src", "include", "tests", "bench", "examples")
VERSION = "14"  # of clang-tidy; other versions have other checks
COMMITS = 20  # number of commits of main to check
TOGETHER = 8  # limit for files that are compiled together
LONGEST_ARGUMENT = 100_000  # limit for an argument of a command; the system allows 128 KiB
NAMED = 10  # number of files that a list names
STRICT = int(bool(os.environ.get("CHECK_STRICT")))  # the exit status if a tool is missing
LOCKS = "src/base/mutex.h"
IGNORED = ROOT / ".git-blame-ignore-revs"


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def commit_of(name):
    found = subprocess.run(["git", "rev-parse", "--verify", "--quiet", name + "^{commit}"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip()


def base_commit():
    """The commit since which changes count; empty if there is no history."""
    named = os.environ.get("CHECK_BASE", "")
    if named:
        if not commit_of(named):
            sys.exit(f"lint: CHECK_BASE: there is no commit \"{named}\" here")
        return commit_of(named)
    head = commit_of("HEAD")
    if not head:
        return ""
    for main in ("origin/main", "main"):
        if commit_of(main):
            left_at = subprocess.run(["git", "merge-base", main, "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
            if left_at and left_at != head:
                return left_at
    line = output_of("git", "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", "HEAD").split()
    return line[-1] if len(line) > 1 else ""


def is_source(name):
    return name.split("/")[0] in FOLDERS and name.endswith((".cpp", ".h")) and (ROOT / name).is_file()


def changed_files(base):
    """Sources that changed since `base`: first files not committed, then the newest changes."""
    names = output_of("git", "diff", "--name-only", "HEAD").split()
    names += output_of("git", "ls-files", "--others", "--exclude-standard").split()
    ignored = set(re.findall(r"^[0-9a-f]{40}", IGNORED.read_text(), re.MULTILINE)) if IGNORED.exists() else set()
    commit = ""
    for line in output_of("git", "log", "--no-merges", "--format=commit %H", "--name-only", f"{base}..HEAD").splitlines():
        if line.startswith("commit "):
            commit = line.split()[1]
        elif line and commit not in ignored:
            names.append(line)
    return [name for name in dict.fromkeys(names) if is_source(name)]


def changed_lines(name, base):
    """Ranges [first, last] of lines that changed since `base`; all lines of a file that git does not know."""
    command = ["git", "blame", "-s", *(["--ignore-revs-file", str(IGNORED)] if IGNORED.exists() else []), f"^{base}", "--", name]
    blamed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if blamed.returncode != 0:
        return [[1, 10**6]]
    ranges = []
    for number, line in enumerate(blamed.stdout.splitlines(), 1):
        if line.startswith("^"):
            continue
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def includes_of(name):
    """The project's files that a file includes directly."""
    found = []
    for header in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', (ROOT / name).read_text(), re.MULTILINE):
        for folder in (*FOLDERS, str(pathlib.PurePosixPath(name).parent)):
            if (ROOT / folder / header).is_file():
                found.append(os.path.normpath(f"{folder}/{header}"))
                break
    return found


class Sources:
    """The compiled files with their compiler options and the headers that each file includes."""

    def __init__(self):
        for tool in ("clang++", "cmake", "ninja", "protoc"):
            if not shutil.which(tool):
                print(f"lint: {tool} was not found (scripts/packages-check.txt, scripts/packages.txt): skipped")
                sys.exit(STRICT)
        reports = ROOT / "src" / "report"
        for command in (["cmake", "--preset", "check"],  # the other commands make headers that the build would make
                        ["cmake", "--build", BUILD, "--target", "trireme_library_facts"],
                        ["protoc", f"--cpp_out={BUILD / 'src'}", f"--proto_path={reports}", reports / "tensorboard_event.proto"]):
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"lint: {shlex.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
        self.options = {}
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            path = pathlib.Path(entry["file"])
            if path.is_relative_to(ROOT) and is_source(str(path.relative_to(ROOT))):
                words = shlex.split(entry["command"])
                end = words.index("-o")  # the rest names the two files
                start = next(i for i, word in enumerate(words) if os.path.basename(word).startswith("clang")) + 1
                self.options[str(path.relative_to(ROOT))] = words[start:end]
        names = output_of("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS).split()
        self.includes = {name: includes_of(name) for name in names if is_source(name)}

    def compiled_for(self, name):
        """A compiled file that includes `name` (`name` itself, if it is a source), or None."""
        if name in self.options:
            return name
        beside = str(pathlib.PurePosixPath(name).with_suffix(".cpp"))
        if beside in self.options and name in self.includes[beside]:
            return beside
        return next((other for other in sorted(self.options) if name in self.reached(other)), None)

    def reached(self, name):
        """All of the project's files that a file includes, directly or not, and the file itself."""
        seen, todo = {name}, [name]
        while todo:
            for other in self.includes.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    def groups(self, names):
        """Groups of a few files of one room with the same options, in the given order."""
        rooms = {}
        for name in names:
            rooms.setdefault((tuple(name.split("/")[:2]), tuple(self.options[name])), []).append(name)
        return [group[i:i + TOGETHER] for group in rooms.values() for i in range(0, len(group), TOGETHER)]


class Check:
    """One check of groups of files. Divides groups that cannot be compiled together because they use the same names for different things."""

    def __init__(self, sources, seconds):
        self.sources = sources
        self.until = time.monotonic() + seconds if seconds else None
        self.folder = tempfile.TemporaryDirectory()
        self.left_out = []

    def __call__(self, group):
        """The findings as text; empty if there are none."""
        if self.until and time.monotonic() > self.until:
            self.left_out += group
            return ""
        file = ROOT / group[0]
        if len(group) > 1:
            file = pathlib.Path(self.folder.name) / (group[0].replace("/", "_") + f"_{len(group)}.cpp")
            file.write_text("".join(f'#include "{ROOT / name}"\n' for name in group))
            if not self.compile(file, group, []).ok:
                middle = len(group) // 2
                return self(group[:middle]) + self(group[middle:])
        return self.check(file, group)

    def compile(self, file, group, more):
        return run(["clang++", *self.sources.options[group[0]], "-Wno-everything", *more, "-fsyntax-only", file])


class ThreadSafety(Check):
    def check(self, file, group):
        return self.compile(file, group, ["-Wthread-safety", "-Werror=thread-safety"]).text


class Tidy(Check):
    def __init__(self, sources, seconds, tool, lines):
        super().__init__(sources, seconds)
        self.tool = tool
        self.lines = lines

    def filter(self, group):
        """The option that limits findings to changed lines; none if all lines count."""
        if not self.lines:
            return []
        read = set().union(*(self.sources.reached(name) for name in group))
        lines = [{"name": str(ROOT / name), "lines": ranges} for name, ranges in self.lines.items() if name in read]
        text = json.dumps(lines)
        if len(text) > LONGEST_ARGUMENT:  # too long: check all lines of these files
            text = json.dumps([{"name": file["name"]} for file in lines])
        return [f"--line-filter={text}"]

    def check(self, file, group):
        done = run([self.tool, "--quiet", f"--config-file={ROOT / '.clang-tidy'}", "--warnings-as-errors=*",
                    f"--header-filter=^{ROOT}/({'|'.join(FOLDERS)})/", "--checks=-bugprone-suspicious-include",
                    *self.filter(group), file, "--", *self.sources.options[group[0]]])
        return "" if done.ok else done.text


class run:
    def __init__(self, command):
        done = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.ok = done.returncode == 0
        self.text = re.sub(r"^\d+ warnings?( and \d+ errors?)? generated\.\n", "", done.stdout, flags=re.MULTILINE) if not self.ok else ""


def tidy_tool():
    for name in (f"clang-tidy-{VERSION}", "clang-tidy"):
        if shutil.which(name) and re.search(rf"version {VERSION}\.", output_of(name, "--version")):
            return name
    print(f"lint: clang-tidy {VERSION} was not found (scripts/packages-check.txt): skipped")
    sys.exit(STRICT)


def jobs():
    """The number of jobs: one per core with 2 GiB."""
    memory = re.search(r"^MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)
    return max(1, min(os.cpu_count(), int(memory.group(1)) // 2**21))


def list_some(what, names):
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        print(f"lint: {what}: {', '.join(names[:NAMED])}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=["tidy", "thread-safety"])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--all", action="store_true", help="all files, all lines")
    what.add_argument("--files", nargs="+", metavar="FILE", help="these, all lines")
    parser.add_argument("--most", type=int, default=0, help="files at most, default all")
    parser.add_argument("--seconds", type=int, default=0, help="begins nothing after this time, default no limit")
    options = parser.parse_args()
    tool = tidy_tool() if options.check == "tidy" else ""

    base = "" if options.all or options.files else base_commit()
    if not (options.all or options.files or base):
        print("lint: no history to compare with: skipped")
        return 0
    sources = Sources()
    lines = {}
    if options.all:
        wanted = sorted(sources.options)
    elif options.files:
        wanted = [str(pathlib.Path(name).resolve().relative_to(ROOT)) for name in options.files]
    else:
        lines = {name: changed_lines(name, base) for name in changed_files(base)}
        wanted = [name for name, ranges in lines.items() if ranges]
    compiled = {name: sources.compiled_for(name) for name in wanted}
    list_some("in no file that is compiled here", [name for name in wanted if not compiled[name]])
    names = list(dict.fromkeys(name for name in compiled.values() if name))
    if options.check == "thread-safety":
        names = [name for name in names if name.startswith("src/") and LOCKS in sources.reached(name)]
    left_out = names[options.most:] if options.most else []
    if options.most:
        names = names[:options.most]

    begun = time.monotonic()
    check = ThreadSafety(sources, options.seconds) if tool == "" else Tidy(sources, options.seconds, tool, lines)
    with concurrent.futures.ThreadPoolExecutor(jobs()) as pool:
        found = 0
        for text in pool.map(check, sources.groups(names)):
            found += bool(text)
            print(text, end="", flush=True)
    list_some("left out", left_out + check.left_out)
    since = f" changed since {base[:10]}" if base else ""
    print(f"lint: {options.check} of {len(names) - len(check.left_out)} files{since} in {time.monotonic() - begun:.0f} s: "
          f"{'see above' if found else 'nothing found'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
