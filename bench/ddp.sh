#!/bin/sh
# Compares training steps of two workers: Trireme's data plan (two threads) and PyTorch's DistributedDataParallel (two processes, gloo), run
# alternately. Both have the same model, batch 128, channels_last, precision, one intra-op thread per worker and tcmalloc.
#
# Usage: bench/ddp.sh [BUILD_FOLDER] [ROUNDS]   (default: build, 3 rounds). Needs train_step built and Debian's python3-torch.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
rounds=${2:-3}
if [ ! -x "$build/bench/train_step" ]; then
  echo "train_step was not found in '$build/bench': build it with cmake --build $build --target train_step" >&2
  exit 2
fi
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  echo "python3-torch is missing: nothing to compare with (apt-get install python3-torch)" >&2
  exit 2
fi
malloc=$(ls /usr/lib/*/libtcmalloc_minimal.so.4 2>/dev/null | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for model in cifar-resnet18 resnet18; do
  [ "$model" = resnet18 ] && steps=20 || steps=5
  for precision in fp32 bf16; do
    round=0
    while [ "$round" -lt "$rounds" ]; do
      round=$((round + 1))
      flags="--model $model --precision $precision --steps $steps"
      one=$("$build/bench/train_step" --plan single --batch 64 $flags)
      two=$("$build/bench/train_step" --plan data --devices 2 --batch 128 $flags)
      peer=$(LD_PRELOAD=$malloc /usr/bin/python3 "$here/peers/ddp.py" --processes 2 --batch 128 $flags)
      echo "$model $precision $one $two $peer" >>"$work/lines"
    done
  done
done
/usr/bin/python3 "$here/peers/ddp_table.py" "$work/lines"
