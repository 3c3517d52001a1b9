#!/bin/sh
# Compares the simulator's predictions with published measurements: writes docs/validation.md. With --check it writes nothing and fails if a row
# exceeds its limit.
#
# Usage: bench/validation.sh [--check] [BUILD_FOLDER]   (default: build)
# PipeDream's published profiles are in TRIREME_PROFILES or, if not set, in the folder `profiles` beside TRIREME_DATA.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
check=
if [ "${1:-}" = --check ]; then
  check=yes
  shift
fi
build=${1:-$here/../build}
if [ ! -x "$build/bench/validation/validation" ]; then
  echo "validation was not found in '$build/bench/validation': build it with cmake --build $build --target validation" >&2
  exit 2
fi
profiles=${TRIREME_PROFILES:-}
[ -n "$profiles" ] || [ -z "${TRIREME_DATA:-}" ] || profiles=$(dirname "$TRIREME_DATA")/profiles
if [ ! -f "$profiles/pipedream/vgg16.txt" ]; then
  if [ -z "$check" ]; then
    echo "PipeDream's profiles are not here: set TRIREME_PROFILES to the folder that holds pipedream/vgg16.txt" >&2
    exit 2
  fi
  echo "PipeDream's table is left out: its profiles are not here (TRIREME_PROFILES)" >&2
  profiles=
fi
export TRIREME_PROFILES="$profiles"
if [ -n "$check" ]; then
  exec "$build/bench/validation/validation" --check
fi
exec "$build/bench/validation/validation" --check --out "$here/../docs/validation.md"
