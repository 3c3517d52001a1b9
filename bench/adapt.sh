#!/bin/sh
# Runs in which conditions change half-way: links become 20 times slower (examples/adapt.toml), or a worker computes three times as long
# (examples/adapt-worker.toml). Prints seconds of training under fixed plans and of the run that begins under "data" and adapts, with its changes of
# plan. The runs alternate. Below the table: the changes of each adaptive run.
#
# Usage: bench/adapt.sh [BUILD_FOLDER] [ROUNDS] [links|worker]   (default: build, 3 rounds, links)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
rounds=${2:-3}
what=${3:-links}
case $what in
  links) example=adapt steps=1200 ;;
  worker) example=adapt-worker steps=800 ;;
  *) echo "what changes is links or worker, not '$what'" >&2; exit 2 ;;
esac
if [ ! -x "$build/trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# NAME PLAN ADAPT: seconds of training
run() {
  "$build/trireme" train "$here/../examples/$example.toml" --plan "$2" --set "adapt=$3" --set save_weights=false \
    --out "$work/$1-$round" --json "$work/$1-$round.json" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  /usr/bin/python3 -B -c 'import json, sys; print(json.load(open(sys.argv[1]))["rows"][0]["curve"][-1]["seconds"])' "$work/$1-$round.json"
}

round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  single=$(run single single false)
  data=$(run data data false)
  adaptive=$(run adaptive data true)
  if [ "$what" = links ]; then
    others="$(run tensor tensor false) $(run pipeline pipeline false)"
  else
    others="$(run unequal data,speeds=1:0.33 false) $(run pipeline pipeline false)"
  fi
  echo "seconds $single $data $others $adaptive" >>"$work/lines"
done
third=$([ "$what" = links ] && echo tensor || echo "data 3:1")
/usr/bin/python3 -B "$here/peers/ratio_table.py" "$work/lines" "$steps steps" "single;data;$third;pipeline;adaptive" \
  "adaptive / single=5/1;adaptive / data=5/2;adaptive / $third=5/3;adaptive / pipeline=5/4"
/usr/bin/python3 -B - "$work" <<'PYTHON'
import glob, json, sys
for path in sorted(glob.glob(sys.argv[1] + "/adaptive-*.json")):
    for change in json.load(open(path))["rows"][0]["changes"]:
        print("after step {step}: \"{from}\" -> \"{to}\" in {seconds:.2f} s: {reason}".format(**change))
PYTHON
