#!/bin/sh
# The cost of checkpoints: the same training with checkpoints every EVERY steps and without any, alternately. Prints per round: milliseconds that
# training stood still for one checkpoint, this time as a share of the run's time, and the ratio of seconds of training with and without checkpoints.
# The goal is below 5 %.
#
# Usage: bench/checkpoint_stall.sh [BUILD_FOLDER] [EXPERIMENT] [EVERY] [STEPS] [ROUNDS] [PLAN] [PROCESSES]
#   (default: build, examples/mnist.toml, 50 steps, 600, 3, data, workers that are threads)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
experiment=${2:-$here/../examples/mnist.toml}
every=${3:-50 steps}
steps=${4:-600}
rounds=${5:-3}
plan=${6:-data}
processes=${7:-}
need "$build" trireme
use_folder

# NAME ARGUMENT...: trains
run() {
  name=$1
  shift
  "$build/trireme" ${processes:+launch -n "$processes"} train "$experiment" --plan "$plan" --steps "$steps" \
    --set "evaluate_every=$steps steps" --set time_limit="1 h" \
    --set save_weights=false --out "$work/$name" --json "$work/$name.json" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

echo "round  checkpoints  size MiB  stall ms each  stall % of time  with / without"
round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  run "without-$round"
  run "with-$round" --set "checkpoint.every=$every"
  /usr/bin/python3 -B - "$round" "$work/with-$round.json" "$work/without-$round.json" <<'EOF'
import json, sys
rows = [json.load(open(path))["rows"][0] for path in sys.argv[2:]]
seconds = [row["curve"][-1]["seconds"] for row in rows]
c = rows[0]["checkpoints"]
print(f"{sys.argv[1]:>5}  {c['written']:>11}  {c['bytes'] / 2**20:>8.2f}  {1e3 * c['stall_seconds'] / c['written']:>13.2f}  "
      f"{100 * c['stall_seconds'] / seconds[0]:>15.2f}  {seconds[0] / seconds[1]:>14.3f}")
EOF
done
