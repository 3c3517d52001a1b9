#!/bin/sh
# Compares the measured share of a step for which two pipeline workers wait with the schedule's formula: an MLP of 8 equal layers (2048 wide, batch
# 1024), balanced by a profile.
#
# Usage: bench/bubble.sh [BUILD_FOLDER] [ROUNDS]   (default: build, 3 rounds)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
rounds=${2:-3}
if [ ! -x "$build/bench/train_step" ]; then
  echo "train_step was not found in '$build/bench': build it with cmake --build $build --target train_step" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  for m in 4 8; do
    for schedule in gpipe 1f1b interleaved zero-bubble; do
      line=$("$build/bench/train_step" --model mlp --set hidden=2048 --set depth=8 --sample 2048 --batch 1024 --steps 4 --shares \
        --plan "$schedule,micro_batches=$m")
      echo "$schedule $m $line" >>"$work/lines"
    done
  done
done
/usr/bin/python3 -B "$here/peers/bubble_table.py" "$work/lines"
