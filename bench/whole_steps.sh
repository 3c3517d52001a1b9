#!/bin/sh
# The cost of whole steps, with which an elastic run loses no step when it loses a rank: the same training with elastic = true and without,
# alternately, in processes. Prints per round: median milliseconds of a step with and without, and their ratio.
#
# Usage: bench/whole_steps.sh [BUILD_FOLDER] [EXPERIMENT] [STEPS] [ROUNDS] [PROCESSES]
#   (default: build, examples/mnist.toml, 600, 5, 2)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
experiment=${2:-$here/../examples/mnist.toml}
steps=${3:-600}
rounds=${4:-5}
processes=${5:-2}
need "$build" trireme
use_folder

# NAME ARGUMENT...: trains
run() {
  name=$1
  shift
  "$build/trireme" launch -n "$processes" train "$experiment" --plan data --steps "$steps" --set "evaluate_every=$steps steps" \
    --set time_limit="1 h" --set save_weights=false --set "checkpoint.every=$steps steps" \
    --out "$work/$name" --json "$work/$name.json" "$@" \
    >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

echo "round  elastic ms  without ms  ratio"
round=0
while [ "$round" -lt "$rounds" ]; do
  round=$((round + 1))
  run "elastic-$round" --set elastic=true
  run "without-$round"
  /usr/bin/python3 -B - "$round" "$work/elastic-$round.json" "$work/without-$round.json" <<'EOF'
import json, sys
elastic, without = (1e3 * json.load(open(path))["rows"][0]["step_seconds"]["median"] for path in sys.argv[2:])
print(f"{sys.argv[1]:>5}  {elastic:>10.2f}  {without:>10.2f}  {elastic / without:>5.3f}")
EOF
done
