#!/bin/sh
# The cost and the saving of recomputing activations: an image transformer of 8 equal blocks (256 wide, 4 heads, dropout 0.1, 64 patches, batch 64,
# float32) on one worker with recompute=all and without, run alternately. Two smaller depths give the bytes that a block keeps, from which the memory
# is predicted.
#
# Usage: bench/recompute.sh [BUILD_FOLDER] [ROUNDS]   (default: build, 5 rounds)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
rounds=${2:-5}
if [ ! -x "$build/bench/train_step" ]; then
  echo "train_step was not found in '$build/bench': build it with cmake --build $build --target train_step" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
depth=8 width=256 batch=64
step() {
  layers=$1 plan=$2
  shift 2
  "$build/bench/train_step" --model transformer-classifier --set layers="$layers" --set width=$width --set heads=4 --set probability=0.1 \
    --batch $batch --plan "$plan" --kinds --memory "$@"
}

for layers in 2 4; do
  echo "depth $layers $(step "$layers" single --steps 1 --warmup 1)" >>"$work/lines"
done
round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  echo "kept $depth $(step $depth single --steps 3 --warmup 1)" >>"$work/lines"
  echo "recomputed $depth $(step $depth single,recompute=all --steps 3 --warmup 1)" >>"$work/lines"
done
/usr/bin/python3 -B "$here/peers/recompute_table.py" "$work/lines" $batch $width
