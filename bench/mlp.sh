#!/bin/sh
# An MLP with 4096-wide layers (3 hidden layers, inputs of 1024, batch 512, float32, SGD with momentum) on two workers, split by the batch, by the
# features, or by both, compared with one worker, run alternately.
#
# Usage: bench/mlp.sh [BUILD_FOLDER] [ROUNDS]   (default: build, 3 rounds)
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
step() { "$build/bench/train_step" --model mlp --set hidden=4096 --set depth=3 --sample 1024 --batch 512 --steps 6 --plan "$@"; }

for precision in fp32 bf16; do
  round=0
  while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "$precision $(step single --precision $precision) $(step data=2 --precision $precision)" \
      "$(step tensor=2 --precision $precision) $(step data=2 --tensor-from fc3 --precision $precision)" >>"$work/lines"
  done
done
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/lines" "precision" \
  "1 worker, samples/s;data 2;tensor 2;data 2, then tensor 2 from fc3" "data=2/1;tensor=3/1;data then tensor=4/1"
