"""A project adds Trireme with add_subdirectory: Trireme's files are optimised although the project sets no build type, and none of Trireme's
flags reaches the project's files. Configures only; compiles nothing.
Usage: subproject_test.py BUILD_FOLDER [unittest's arguments]"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
SOURCE = pathlib.Path(__file__).resolve().parent.parent
LONGEST = 300  # seconds per command

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_subdirectory("{SOURCE}" trireme)
add_executable(linked linked.cpp)
target_link_libraries(linked PRIVATE trireme::trireme)
add_executable(unrelated unrelated.cpp)
"""


def same_tools():
    """Arguments for the compiler and the libtorch of the build that runs this test."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    found = re.findall(r"^(CMAKE_CXX_COMPILER|Torch_DIR|CMAKE_PREFIX_PATH):[^=]*=(.+)$", cache, re.MULTILINE)
    return [f"-D{name}={value}" for name, value in found]


class Subproject(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "CMakeLists.txt").write_text(PROJECT)
        for name in ("linked", "unrelated"):
            (self.root / f"{name}.cpp").write_text("int main() {}\n")

    def configure(self, *settings):
        done = subprocess.run(["cmake", "-S", self.root, "-B", self.root / "build", "-G", "Ninja", *same_tools(), *settings],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.said = done.stdout
        commands = json.loads((self.root / "build/compile_commands.json").read_text())
        own, trireme = {}, []
        for command in commands:
            words = shlex.split(command["command"])
            file = pathlib.Path(command["file"])
            if file.parent == self.root:
                own[file.stem] = words
            else:
                trireme.append((str(file), words))
        self.assertGreater(len(trireme), 50)
        return own, trireme

    def test_trireme_is_optimised_where_no_build_type_is_set(self):
        own, trireme = self.configure()
        self.assertIn("Trireme is compiled as Release", self.said)
        for file, words in trireme:
            self.assertTrue({"-O2", "-O3"} & set(words), file)
        # the project sets no build type, so its own files get no such flag
        for name, words in own.items():
            self.assertFalse([word for word in words if word.startswith("-O") or word == "-DNDEBUG"], name)

    def test_no_flag_of_trireme_reaches_the_project(self):
        own, trireme = self.configure()
        compiler, *words = own["unrelated"]
        self.assertEqual(words[:1], ["-o"], words)
        linked = own["linked"]
        foreign = [word for word in linked if word.startswith(("-W", "-f", "-m", "-O", "-g", "--param", "-D_FORTIFY", "-DTRIREME"))]
        self.assertEqual(foreign, [])
        self.assertFalse([word for word in linked if word.endswith(f"{SOURCE.name}/src")], linked)
        # the project's own warnings are not about Trireme's headers, and it sees none about Trireme's files
        self.assertEqual(linked[linked.index(str(SOURCE / "include")) - 1], "-isystem")
        for file, words in trireme:
            self.assertFalse({"-Wall", "-Wextra", "-Werror"} & set(words), file)

    def test_a_build_type_of_the_project_holds_for_trireme(self):
        _, trireme = self.configure("-DCMAKE_BUILD_TYPE=Debug")
        self.assertNotIn("Trireme is compiled as Release", self.said)
        for file, words in trireme:
            self.assertIn("-g", words, file)
            self.assertNotIn("-O3", words, file)


if __name__ == "__main__":
    unittest.main()
