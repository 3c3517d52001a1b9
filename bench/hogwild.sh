#!/bin/sh
# Hogwild on a model with sparse steps: samples per second with one and with two threads, compared with plain training on one, run alternately, and
# the test accuracy of each. Each round has its own seed. Last, how sparse the steps are.
#
# Usage: bench/hogwild.sh [BUILD_FOLDER] [ROUNDS] [EXPERIMENT]   (default: build, 5 rounds, examples/sst2-bag-of-words.toml)
# TRIREME_DATA is the folder with the data. The machine must be idle, because threads that share a core give wrong speeds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
rounds=${2:-5}
experiment=${3:-$here/../examples/sst2-bag-of-words.toml}
need "$build" trireme
use_folder
run() { /usr/bin/python3 -B "$here/peers/wall_speed.py" "$build/trireme" "$experiment" "$@"; }

name=$(basename "$experiment" .toml)
round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  single=$(run single 1 "seed=$round")
  one=$(run hogwild 1 "seed=$round")
  two=$(run hogwild 2 "seed=$round")
  echo "$name ${single% *} ${one% *} ${two% *}" >>"$work/speed"
  echo "$name ${single#* } ${one#* } ${two#* }" >>"$work/accuracy"
done
ways="single;hogwild, 1 thread;hogwild, 2 threads"
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/speed" "samples/s" "$ways" "2 threads / 1=3/2;hogwild / single=2/1"
echo
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/accuracy" "test accuracy, %" "$ways" "2 threads / 1=3/2;hogwild / single=2/1"
if [ "$name" = sst2-bag-of-words ] && [ -n "${TRIREME_DATA:-}" ]; then
  echo
  /usr/bin/python3 -B "$here/peers/hogwild_sparsity.py" "$TRIREME_DATA"
fi
