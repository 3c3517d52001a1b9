#!/bin/sh
# The cost of padding: positions of an epoch by data.pad_to_multiple_of, then training samples per second of processor time on one worker with full
# padding and with little, run alternately.
#
# Usage: bench/padding.sh EXPERIMENT [BUILD_FOLDER] [ROUNDS] [STEPS] [MULTIPLE]   (default: build, 3 rounds of 60 steps, 4)
# The experiment's data must be sentences (examples/sst2-bert.toml); TRIREME_DATA is the folder with the data.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
experiment=${1:?name an experiment}
build=${2:-$here/../build}
rounds=${3:-3}
steps=${4:-60}
multiple=${5:-4}
for program in trireme bench/bench_padding; do
  if [ ! -x "$build/$program" ]; then
    echo "$program was not found in '$build': build it with cmake --build $build --target $(basename $program)" >&2
    exit 2
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/bench/bench_padding" "$experiment"

speed() { /usr/bin/python3 -B "$here/peers/train_speed.py" "$build/trireme" "$experiment" "$steps" "$1"; }

round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  echo "$(basename "$experiment") $(speed 0) $(speed "$multiple")" >>"$work/lines"
done
echo
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/lines" "experiment" \
  "all padding, samples/s;multiple of $multiple" "little / all=2/1"
