#!/bin/sh
# Compares images per second of one core's time, read from a folder of classes, decoded, resized, cropped and normalised to float32: Trireme's
# FolderDataset in one thread and torchvision's ImageFolder with its usual transforms in one process, run alternately. Files are in the page cache;
# seconds are processor time, so that other work on the machine counts little.
# small:  64x64 JPEGs of tiny-imagenet-100, unchanged (64) and resized (48)
# photo:  500x375 JPEGs, resized to 224 and cropped as in an evaluation, or by a random resized crop as in training;
#        thumbnail: the same to 64, where Trireme decodes a JPEG at a part of its size
#
# Usage: bench/decode.sh [BUILD_FOLDER] [ROUNDS] [DATA_FOLDER]   (default: build, 3 rounds, TRIREME_DATA). Needs bench_decode built and Debian's
# python3-torchvision. Without DATA_FOLDER/tiny-imagenet-100 the small images are left out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
rounds=${2:-3}
data=${3:-${TRIREME_DATA:-}}
program=$build/bench/bench_decode
if [ ! -x "$program" ]; then
  echo "bench_decode was not found in '$build/bench': build it with cmake --build $build --target bench_decode" >&2
  exit 2
fi
if ! /usr/bin/python3 -c 'import torchvision' 2>/dev/null; then
  echo "python3-torchvision is missing: nothing to compare with (apt-get install python3-torchvision)" >&2
  exit 2
fi
malloc=$(ls /usr/lib/*/libtcmalloc_minimal.so.4 2>/dev/null | head -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
small=$data/tiny-imagenet-100/train
if [ -d "$small" ]; then
  /usr/bin/python3 -B "$here/peers/photographs.py" "$work/photos" "$small"
else
  echo "the small images are left out: no tiny-imagenet-100 in '$data'" >&2
  /usr/bin/python3 -B "$here/peers/photographs.py" "$work/photos"
fi

measure() {
  name=$1
  shift
  ours=$("$program" "$@")
  peer=$(LD_PRELOAD=$malloc /usr/bin/python3 -B "$here/peers/decode.py" "$@")
  echo "$name $ours $peer" >>"$work/lines"
}

round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  if [ -d "$small" ]; then
    measure small-64 "$small" --size 64
    measure small-48 "$small" --size 48
  fi
  measure photo-224 "$work/photos" --size 224
  measure photo-224-random "$work/photos" --size 224 --random
  measure photo-64-thumbnail "$work/photos" --size 64
done
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/lines" "images" "Trireme, images/s per core;torchvision" "Trireme / torchvision=1/2"
