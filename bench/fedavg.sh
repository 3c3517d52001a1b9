#!/bin/sh
# Compares the rounds of federated averaging to 97 % on MNIST with the published ones (examples/fedavg.toml), and measures the cost of unequal
# clients, dropouts and late answers. Prints tables. Takes about 40 minutes on an idle core.
#
# Usage: bench/fedavg.sh [BUILD_FOLDER] [RUNS_FOLDER]   (default: build, a temporary one; runs that RUNS_FOLDER already has are not repeated)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
need "$build" trireme
use_folder "${2:-}"
/usr/bin/python3 -B "$here/peers/fedavg_table.py" "$build/trireme" "$here/../examples/fedavg.toml" "$work"
