#!/bin/sh
# Compares adaptive with fixed plans on this machine: examples/adaptive-resnet.toml and examples/adaptive-vit.toml (CIFAR-10) on 2 and 4 workers under
# single, data, tensor (model parallel), hybrid-static, asa and exact. Writes docs/adaptive-real.md to the standard output; the run folders, each with
# its report, stay in OUT.
#
# Usage: bench/adaptive_real.sh [BUILD_FOLDER] [OUT] > docs/adaptive-real.md   (default: build, runs; STEPS=4 in the environment makes a short trial;
# TRIREME_DATA: the folder with CIFAR-10)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
out=${2:-runs}
trireme=$(find "$build" -maxdepth 2 -type f -name trireme -perm -u+x | head -n 1)
if [ -z "$trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
mkdir -p "$out"
for model in resnet vit; do
  # A failed row is still a row of the tables; without any row the tables' script fails.
  "$trireme" compare "$here/../examples/adaptive-$model.toml" ${STEPS:+--steps "$STEPS"} --out "$out/adaptive-$model" >&2 || true
done
/usr/bin/python3 -B "$here/peers/adaptive_real_table.py" "$out/adaptive-resnet/run.json" "$out/adaptive-vit/run.json"
