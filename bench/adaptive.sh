#!/bin/sh
# Compares adaptive with fixed plans by simulation: ResNet-50 and ViT-B/16 (224 pixels, 100 classes) on 1, 2, 4 and 8 devices of a described cluster
# under single, data, model (tensor, pipeline), hybrid, hybrid-static, asa and exact; then the effect of slower links, no overlap and smaller batches.
# Writes docs/adaptive.md to the standard output.
#
# Usage: bench/adaptive.sh [BUILD_FOLDER] [CLUSTER] > docs/adaptive.md   (default: build, examples/clusters/dgx1-v100.cluster.toml)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
cluster=${2:-$here/../examples/clusters/dgx1-v100.cluster.toml}
trireme=$(find "$build" -maxdepth 2 -type f -name trireme -perm -u+x | head -n 1)
if [ -z "$trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -B "$here/peers/adaptive_table.py" "$trireme" "$cluster" "$work"
echo
/usr/bin/python3 -B "$here/peers/adaptive_causes.py" "$trireme" "$cluster" "$work"
