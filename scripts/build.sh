#!/usr/bin/env bash
# Installs, configures and builds as far as something is missing or changed. Usage: build.sh [TARGET], default everything but the benchmarks (target benchmarks).
# Where TRIREME_WERROR is set, to ON or OFF, it says from then on whether warnings are errors.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh

if ! command -v cmake >/dev/null; then
  echo "build: cmake was not found; install it (scripts/packages.txt lists what else is needed)" >&2
  exit 1
fi
# ninja itself configures again when a CMakeLists.txt changed; it does not know of the presets
options=(${TRIREME_WERROR:+"-DTRIREME_WERROR=$TRIREME_WERROR"})
if [ ! -f build/build.ninja ] || [ CMakePresets.json -nt build/build.ninja ] || [ ${#options[@]} -gt 0 ]; then
  cmake --preset release --log-level=NOTICE "${options[@]}" >&2
fi

# a compiler that reads libtorch's headers takes up to 2 GiB
memory_gib=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo 2>/dev/null || echo 4)
jobs=$(nproc)
[ "$jobs" -le $((memory_gib / 2)) ] || jobs=$((memory_gib / 2))
[ "$jobs" -ge 1 ] || jobs=1
# A build takes minutes: say what it does and how long, in one line. Of one core, as measured on a Xeon (docs/speed.md).
readonly SECONDS_PER_FILE=5
files=$(ninja -C build -n "${1:-all}" 2>/dev/null | grep -c 'Building CXX') || true
if [ "$files" -gt 0 ]; then
  echo "build: ${1:-program, libraries and tests}: $files files to compile, $jobs at a time, in about" \
       "$(((files * SECONDS_PER_FILE / jobs + 59) / 60)) min (seconds where ccache has them)" >&2
fi
cmake --build --preset release --parallel "$jobs" ${1:+--target "$1"} >&2
