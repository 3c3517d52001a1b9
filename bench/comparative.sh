#!/bin/sh
# The tables of the study "comparative" in docs/studies.md: runs or resumes it and prints what it found.
#
# Usage: bench/comparative.sh [BUILD_FOLDER] [STUDY_FOLDER] [--quick]   (default: build, a temporary folder)
# TRIREME_DATA: the folder with the data sets. 70 minutes on an idle machine with two cores.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
need "$build" trireme
use_folder "${2:-}"
"$build/trireme" study "$here/../examples/studies/comparative.study.toml" ${3:-} --data-dir "$TRIREME_DATA" --out "$work/comparative" >&2
/usr/bin/python3 -B "$here/peers/comparative_table.py" "$work/comparative/study.json"
