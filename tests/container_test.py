"""Checks Containerfile without a container engine: files that it copies exist, its packages are named by the project, its stages and scripts
exist. Usage: container_test.py [unittest's arguments]"""
import pathlib
import re
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def instructions(text):
    """Pairs of an instruction and its arguments, without comments; continued lines are joined."""
    whole = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [tuple(line.split(None, 1)) for line in whole.splitlines() if line.strip()]


def ignored(path):
    patterns = (ROOT / ".dockerignore").read_text().split()
    return path != "." and any(pathlib.PurePath(path).parts[0] == pattern or pathlib.PurePath(path).match(pattern) for pattern in patterns)


class Container(unittest.TestCase):
    def setUp(self):
        self.instructions = instructions((ROOT / "Containerfile").read_text())

    def of(self, name):
        return [arguments for instruction, arguments in self.instructions if instruction == name]

    def test_instructions_are_known(self):
        known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT", "CMD"}
        self.assertFalse({instruction for instruction, _ in self.instructions} - known)
        self.assertEqual(self.instructions[0][0], "FROM")

    def test_both_stages_are_the_same_debian(self):
        self.assertEqual(len({base.split()[0] for base in self.of("FROM")}), 1)

    def test_copies_what_is_there(self):
        stages = [base.split(" AS ")[1] for base in self.of("FROM") if " AS " in base]
        for copy in self.of("COPY"):
            *sources, _ = [word for word in copy.split() if not word.startswith("--")]
            stage = re.search(r"--from=(\S+)", copy)
            if stage:
                self.assertIn(stage.group(1), stages)
                made = any(f"mkdir {source}" in run for source in sources for run in self.of("RUN"))
                self.assertTrue(made, f"{copy}: the stage does not make it")
                continue
            for source in sources:
                self.assertTrue((ROOT / source).exists(), f"{source} is not there")
                self.assertFalse(ignored(source), f"{source} is left out by .dockerignore")

    def test_installs_packages_that_the_project_names(self):
        named = {line.split("#")[0].strip() for line in (ROOT / "scripts" / "packages.txt").read_text().splitlines()} - {""}
        installed = [word for run in self.of("RUN") for part in run.split("&&") if "apt-get install" in part
                     for word in part.partition("install")[2].split() if not word.startswith(("-", "/"))]
        self.assertTrue(installed)
        self.assertFalse(sorted(set(installed) - named))

    def test_runs_scripts_that_are_there(self):
        for script in re.findall(r"\bscripts/\S+\.sh", " ".join(self.of("RUN"))):
            self.assertTrue((ROOT / script).stat().st_mode & 0o100, f"{script} cannot be run")

    def test_linter(self):
        if not shutil.which("hadolint"):
            self.skipTest("hadolint is not installed")
        ran = subprocess.run(["hadolint", ROOT / "Containerfile"], capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))

    def test_shell_commands(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed")
        for command in self.of("RUN"):
            ran = subprocess.run(["shellcheck", "--shell=sh", "-"], input=f"{command}\n", capture_output=True, text=True, timeout=60)
            self.assertEqual((ran.returncode, ran.stdout), (0, ""), command)


if __name__ == "__main__":
    unittest.main()
