#!/bin/sh
# Compares epoch averaging with a gradient of all workers in every step, on 1 to 64 workers and two networks, on the modelled clock. Writes
# docs/epoch-averaging.md and its charts. The numbers do not depend on the machine's speed. Takes about 45 minutes on an idle core.
#
# Usage: bench/epoch_averaging.sh [BUILD_FOLDER] [DOCS_FOLDER] [RUNS_FOLDER]
#        (default: build, docs, a temporary folder; runs that RUNS_FOLDER already has are not repeated)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
docs=${2:-$here/../docs}
need "$build" trireme bench/draw_chart
use_folder "${3:-}"
/usr/bin/python3 -B "$here/peers/epoch_averaging_table.py" "$build" "$here/../examples" "$docs" "$work" >"$work/epoch-averaging.md"
mv "$work/epoch-averaging.md" "$docs/epoch-averaging.md"
