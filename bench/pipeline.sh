#!/bin/sh
# A pipeline of two workers: compares Trireme's 1f1b schedule with 8 micro-batches with one worker, and with torchgpipe on the same two partitions
# (CIFAR ResNet-18 cut before layer3, batch 128, channels_last, nothing recomputed, tcmalloc in both), run alternately. torchgpipe drives both
# partitions of a CPU from one thread; its rate is shown with one and with two intra-op threads.
#
# Usage: bench/pipeline.sh TORCHGPIPE_CHECKOUT|none [BUILD_FOLDER] [ROUNDS]   (default: build, 3 rounds)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
gpipe=${1:?path of a torchgpipe checkout, or none}
build=${2:-$here/../build}
rounds=${3:-3}
if [ ! -x "$build/bench/train_step" ]; then
  echo "train_step was not found in '$build/bench': build it with cmake --build $build --target train_step" >&2
  exit 2
fi
reason=
[ -f "$gpipe/torchgpipe/gpipe.py" ] || reason="no torchgpipe checkout at '$gpipe'"
/usr/bin/python3 -c 'import torch' 2>/dev/null || reason="python3-torch is missing"
[ -z "$reason" ] || echo "torchgpipe is left out: $reason" >&2
malloc=$(ls /usr/lib/*/libtcmalloc_minimal.so.4 2>/dev/null | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for precision in fp32 bf16; do
  flags="--precision $precision --steps 5"
  round=0
  while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    one=$("$build/bench/train_step" --plan single --batch 128 $flags)
    two=$("$build/bench/train_step" --plan "pipeline=2,schedule=1f1b,micro_batches=8" --cut layer3.0.conv1 --batch 128 $flags)
    balanced=$("$build/bench/train_step" --plan "1f1b,micro_batches=8" --batch 128 $flags)
    split=$("$build/bench/train_step" --plan "single,micro_batches=8" --batch 128 $flags)
    zero=$("$build/bench/train_step" --plan "zero-bubble,micro_batches=8" --batch 128 $flags)
    peer1=- peer2=-
    if [ -z "$reason" ]; then
      peer1=$(LD_PRELOAD=$malloc /usr/bin/python3 -B "$here/peers/torchgpipe_step.py" "$gpipe" $flags --threads 1)
      peer2=$(LD_PRELOAD=$malloc /usr/bin/python3 -B "$here/peers/torchgpipe_step.py" "$gpipe" $flags --threads 2)
    fi
    echo "$precision $one $two $balanced $peer1 $peer2 $split $zero" >>"$work/lines"
  done
done
columns="1 worker, images/s;1f1b, cut before layer3;1f1b, balanced by profile;torchgpipe, 1 thread;torchgpipe, 2 threads"
columns="$columns;1 worker, 8 micro-batches;zero-bubble, balanced"
ratios="1f1b / 1 worker=2/1;balanced / 1 worker=3/1;1f1b / torchgpipe 1 thread=2/4;1f1b / torchgpipe 2 threads=2/5"
ratios="$ratios;balanced / 1 worker, 8 micro-batches=3/6;zero-bubble / 1 worker=7/1"
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/lines" "precision" "$columns" "$ratios"
