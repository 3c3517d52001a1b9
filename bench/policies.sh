#!/bin/sh
# The cost of update policies as the table of an experiment with a target: examples/heterogeneous.toml (workers of unequal speed) or another one.
#
# Usage: bench/policies.sh [BUILD_FOLDER] [EXPERIMENT] [RUNS_FOLDER]   (default: build, heterogeneous, a temporary one)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
need "$build" trireme
use_folder "${3:-}"
/usr/bin/python3 -B "$here/peers/policies_table.py" "$build/trireme" "$here/../examples/${2:-heterogeneous}.toml" "$work"
