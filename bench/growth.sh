#!/bin/sh
# Growth of the planners' time with layers and devices: prints the tables of bench/plan_growth (plans of experiments) and bench/planner_growth (graph
# files, PipeDream's model) and draws docs/planner-growth.svg and docs/graph-planner-growth.svg. Takes some minutes on one core.
#
# Usage: bench/growth.sh [BUILD_FOLDER] [CHART_FOLDER]   (default: build, docs)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
charts=${2:-$here/../docs}
need "$build" bench/plan_growth bench/planner_growth
echo "load before: $(cut -d ' ' -f 1-3 /proc/loadavg), $(nproc) cores"
"$build/bench/plan_growth" --svg "$charts/planner-growth.svg"
"$build/bench/planner_growth" --svg "$charts/graph-planner-growth.svg"
echo "load after: $(cut -d ' ' -f 1-3 /proc/loadavg)"
