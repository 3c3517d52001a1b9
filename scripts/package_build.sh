#!/usr/bin/env bash
# Builds Trireme's Debian package in a clean Debian that debootstrap makes in a temporary folder, from the last commit.
# Usage: package_build.sh [--suite bookworm|trixie] [--mirror URL] [--tests] [--keep] FOLDER
#   --mirror  source of Debian's packages (default: that of this machine's apt, or Debian's)
#   --tests   also builds the tests and runs those labelled unit and equivalence
#   --keep    keep the folder, without its mounts, to inspect it
# FOLDER gets trireme_VERSION_ARCHITECTURE.deb. Needs root, debootstrap and about 8 GiB in TMPDIR. Exit code 0: it was built; 1: not; 2: wrong usage.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"

program=package_build
suite=bookworm mirror='' keep='' tests='' folder=''
while [ $# -gt 0 ]; do
  case $1 in
    --suite) suite=${2:-}; shift 2 || usage ;;
    --mirror) mirror=${2:-}; shift 2 || usage ;;
    --tests) tests=1; shift ;;
    --keep) keep=1; shift ;;
    -*) usage ;;
    *) [ -z "$folder" ] || usage; folder=$1; shift ;;
  esac
done
[ -n "$folder" ] || usage
mkdir -p "$folder"
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
make_root "$suite" "$mirror" "$keep"

git clone --quiet "$source_folder" "$root/trireme"
# `trireme --version` names a commit only in a folder in which git works.
apt update
apt install --yes --no-install-recommends dpkg-dev file git
say "packages of scripts/packages.txt"
inside /trireme/scripts/setup.sh >"$root/tmp/setup.log" 2>&1 || { tail -20 "$root/tmp/setup.log" >&2; fail "setup.sh failed"; }
say "libtorch $(inside dpkg-query --show --showformat '${Version}' libtorch-dev), $(inside g++ --version | head -1)"

run() {  # title, command...: the last lines of what a failed command printed
  say "$1"
  shift
  inside "$@" >"$root/tmp/run.log" 2>&1 || { grep -n 'error:\|FAILED\|Failed' "$root/tmp/run.log" | head -40 >&2; tail -20 "$root/tmp/run.log" >&2; fail "$* failed"; }
}
with_tests=OFF
[ -z "$tests" ] || with_tests=ON
run configure cmake -S /trireme --preset release -DTRIREME_BENCH=OFF -DTRIREME_TESTS=$with_tests
run build cmake --build /trireme/build
run package sh -c 'cd /trireme/build && cpack -G DEB'
cp "$root"/trireme/build/trireme_*.deb "$folder/"
say "$(basename "$root"/trireme/build/trireme_*.deb) is in $folder"
if [ -n "$tests" ]; then
  run "tests" sh -c 'cd /trireme && ctest --preset release -L "^(unit|equivalence)$" --no-tests=error'
  tail -5 "$root/tmp/run.log"
fi
