#!/bin/sh
# What update policies cost, as the table of an experiment with a target: examples/heterogeneous.toml (workers of unequal speed) or another one.
#
# Usage: bench/policies.sh [BUILD_FOLDER] [EXPERIMENT] [RUNS_FOLDER]   (default: build, heterogeneous, a temporary one)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
if [ ! -x "$build/trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
if [ -n "${3:-}" ]; then
  work=$3
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
/usr/bin/python3 -B "$here/peers/policies_table.py" "$build/trireme" "$here/../examples/${2:-heterogeneous}.toml" "$work"
