#!/bin/sh
# Measures all-reduce between two ranks on this machine: Trireme's local backend, gloo over loopback, OpenMPI over shared memory, and a plain memory
# copy, in alternation. GB/s is size over time, from the least time and (in brackets) the middle of the rounds' medians.
#
# Usage: bench/all_reduce.sh [BUILD_FOLDER] [ROUNDS]   (default: build/release or build, 3 rounds). Needs bench_all_reduce built.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-}
rounds=${2:-3}
if [ -z "$build" ]; then
  for folder in "$here/../build/release" "$here/../build"; do
    [ -x "$folder/bench/bench_all_reduce" ] && build=$folder && break
  done
fi
if [ ! -x "${build:-.}/bench/bench_all_reduce" ]; then
  echo "bench_all_reduce was not found in '${build:-build}': build it with cmake --build BUILD_FOLDER --target bench_all_reduce" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

have_gloo=false
/usr/bin/python3 -c 'import torch.distributed' 2>/dev/null && have_gloo=true ||
  echo "no gloo row: Debian's python3-torch is missing" >&2
have_mpi=false
if command -v mpicxx >/dev/null && command -v mpirun >/dev/null; then
  mpicxx -O3 -o "$work/mpi_all_reduce" "$here/peers/mpi_all_reduce.cpp" && have_mpi=true
else
  echo "no MPI row: openmpi-bin and libopenmpi-dev are missing" >&2
fi

round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  "$build/bench/bench_all_reduce" 3 >>"$work/lines"
  $have_gloo && /usr/bin/python3 "$here/peers/gloo_all_reduce.py" 2>>"$work/log" >>"$work/lines"
  $have_mpi && mpirun --allow-run-as-root --bind-to none --oversubscribe -n 2 "$work/mpi_all_reduce" 2>>"$work/log" >>"$work/lines"
done
/usr/bin/python3 "$here/peers/all_reduce_table.py" "$work/lines"
