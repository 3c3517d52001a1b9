#!/bin/sh
# A run whose links become 20 times slower half-way (examples/adapt.toml): seconds of training under plans that stay, and of the run that begins
# under "data" and adapts, changes of plan included. Alternately. Below the table what each adaptive run changed.
#
# Usage: bench/adapt.sh [BUILD_FOLDER] [ROUNDS]   (default: build, 3 rounds)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
rounds=${2:-3}
if [ ! -x "$build/trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME PLAN ADAPT: seconds of training
run() {
  "$build/trireme" train "$here/../examples/adapt.toml" --plan "$2" --set "adapt=$3" --set save_weights=false \
    --out "$work/$1-$round" --json "$work/$1-$round.json" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  /usr/bin/python3 -B -c 'import json, sys; print(json.load(open(sys.argv[1]))["rows"][0]["curve"][-1]["seconds"])' "$work/$1-$round.json"
}

round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  single=$(run single single false)
  data=$(run data data false)
  adaptive=$(run adaptive data true)
  tensor=$(run tensor tensor false)
  pipeline=$(run pipeline pipeline false)
  echo "seconds $single $data $tensor $pipeline $adaptive" >>"$work/lines"
done
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/lines" "1200 steps" "single;data;tensor;pipeline;adaptive" \
  "adaptive / single=5/1;adaptive / data=5/2;adaptive / tensor=5/3;adaptive / pipeline=5/4"
/usr/bin/python3 -B - "$work" <<'PYTHON'
import glob, json, sys
for path in sorted(glob.glob(sys.argv[1] + "/adaptive-*.json")):
    for change in json.load(open(path))["rows"][0]["changes"]:
        print("after step {step}: {from} -> {to} in {seconds:.2f} s: {reason}".format(**change))
PYTHON
