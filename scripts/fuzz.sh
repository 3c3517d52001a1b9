#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz with clang and runs each for some time on its seeds. Stops at the first crash and keeps its input in
# <build>/crashes. Usage: fuzz.sh [SECONDS] [TARGET...]; default: 60 and all targets. TRIREME_FUZZ_BUILD names another build folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${TRIREME_FUZZ_BUILD:-$root/build-fuzz}
seconds=${1:-60}
shift || true
targets=("$@")
if ! [[ $seconds =~ ^[0-9]+$ ]]; then
  echo "fuzz: \"$seconds\" is no number of seconds; usage: fuzz.sh [SECONDS] [TARGET...]" >&2
  exit 2
fi
if [ ${#targets[@]} -eq 0 ]; then
  for source in "$root"/tests/fuzz/*_fuzz.cpp; do
    targets+=("$(basename "$source" _fuzz.cpp)")
  done
fi
for target in "${targets[@]}"; do
  if [ ! -f "$root/tests/fuzz/${target}_fuzz.cpp" ]; then
    echo "fuzz: no target \"$target\" in tests/fuzz" >&2
    exit 2
  fi
done
compiler=${CXX:-$(command -v clang++ || command -v clang++-14 || true)}
if [ -z "$compiler" ]; then
  echo "fuzz: clang was not found; on Debian: apt-get install clang libclang-rt-14-dev" >&2
  exit 1
fi

if [ ! -f "$build/build.ninja" ]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS_DEBUG="-O1 -gline-tables-only" -DTRIREME_SANITIZE=fuzzer-no-link,address,undefined \
    -DTRIREME_FUZZ=ON -DTRIREME_TESTS=OFF -DTRIREME_BENCH=OFF >&2
fi
cmake --build "$build" --parallel 2 --target "${targets[@]/#/fuzz_}" >&2

# libtorch is built without the sanitizers: its containers have no marks, and memory that it never frees is not a leak.
export ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
mkdir -p "$build/crashes"
for target in "${targets[@]}"; do
  corpus="$build/corpus/$target"
  mkdir -p "$corpus"
  folders=("$corpus")
  [ ! -d "$root/tests/fuzz/seeds/$target" ] || folders+=("$root/tests/fuzz/seeds/$target")
  options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$build/crashes/$target-")
  [ ! -f "$root/tests/fuzz/$target.dict" ] || options+=(-dict="$root/tests/fuzz/$target.dict")
  echo "fuzz: $target for $seconds s"
  log="$build/$target.log"
  if ! "$build/fuzz/fuzz_$target" "${options[@]}" "${folders[@]}" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "fuzz: $target failed; its input is in $build/crashes, the whole output in $log" >&2
    exit 1
  fi
  grep -E "stat::number_of_executed_units|^Done|DONE" "$log" | sed 's/^/  /'
done
