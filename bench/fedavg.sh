#!/bin/sh
# Rounds of federated averaging to 97 % on MNIST beside the published ones (examples/fedavg.toml), and what unequal
# clients, dropouts and late answers cost. Prints tables. About 40 minutes of an idle core.
#
# Usage: bench/fedavg.sh [BUILD_FOLDER] [RUNS_FOLDER]   (default: build, a temporary one; runs that a folder has already are not made again)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
need "$build" trireme
use_folder "${2:-}"
/usr/bin/python3 -B "$here/peers/fedavg_table.py" "$build/trireme" "$here/../examples/fedavg.toml" "$work"
