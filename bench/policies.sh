#!/bin/sh
# The tables of update policies in docs/policy-measurements.md: runs or resumes `trireme study policies` and prints what it found.
#
# Usage: bench/policies.sh [BUILD_FOLDER] [STUDY_FOLDER] [--quick]   (default: build, a temporary folder)
# TRIREME_DATA: the folder with MNIST and SST-2. An hour on an idle machine with two cores; with --quick five minutes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
need "$build" trireme
use_folder "${2:-}"
"$build/trireme" study "$here/../examples/studies/policies.study.toml" ${3:-} --data-dir "$TRIREME_DATA" --out "$work/policies" >&2
/usr/bin/python3 -B "$here/peers/policies_table.py" "$work/policies/study.json"
