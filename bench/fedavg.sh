#!/bin/sh
# Rounds of federated averaging to 97 % on MNIST beside the published ones (examples/fedavg.toml), and what unequal clients, dropouts and late
# answers cost. Prints tables. Some minutes on one core.
#
# Usage: bench/fedavg.sh [BUILD_FOLDER] [RUNS_FOLDER]   (default: build, a temporary one; runs that a folder has already are not made again)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
if [ ! -x "$build/trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
if [ -n "${2:-}" ]; then
  work=$2
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
/usr/bin/python3 -B "$here/peers/fedavg_table.py" "$build/trireme" "$here/../examples/fedavg.toml" "$work"
