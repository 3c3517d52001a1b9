#!/usr/bin/env bash
# Installs missing packages, configures if needed, and builds. Usage: build.sh [TARGET]; default: everything but the benchmarks (target benchmarks).
# TRIREME_WERROR=ON|OFF sets, for this and later builds, whether warnings are errors.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh

if ! command -v cmake >/dev/null; then
  echo "build: cmake was not found; install it (scripts/packages.txt lists what else is needed)" >&2
  exit 1
fi
# ninja configures again if a CMakeLists.txt changed, but not if the presets changed.
options=(${TRIREME_WERROR:+"-DTRIREME_WERROR=$TRIREME_WERROR"})
if [ ! -f build/build.ninja ] || [ CMakePresets.json -nt build/build.ninja ] || [ ${#options[@]} -gt 0 ]; then
  cmake --preset release --log-level=NOTICE "${options[@]}" >&2
fi

# A compiler needs up to 2 GiB for libtorch's headers.
memory_gib=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo 2>/dev/null || echo 4)
jobs=$(nproc)
[ "$jobs" -le $((memory_gib / 2)) ] || jobs=$((memory_gib / 2))
[ "$jobs" -ge 1 ] || jobs=1
# A build takes minutes, so print one line with what it does and how long it takes. Minutes of one core, measured on a Xeon (docs/speed.md).
readonly SECONDS_PER_FILE=5
files=$(ninja -C build -n "${1:-all}" 2>/dev/null | grep -c 'Building CXX') || true
if [ "$files" -gt 0 ]; then
  echo "build: ${1:-program, libraries and tests}: $files files to compile, $jobs at a time, in about" \
       "$(((files * SECONDS_PER_FILE / jobs + 59) / 60)) min (seconds where ccache has them)" >&2
fi
cmake --build --preset release --parallel "$jobs" ${1:+--target "$1"} >&2
