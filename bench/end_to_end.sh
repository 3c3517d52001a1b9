#!/bin/sh
# Compares the published end-to-end gains of hybrid over data parallelism (Inception-V3, GNMT, BigLSTM; Pal et al. 2019) with Trireme's predictions:
# steps by the simulator on 32 DGX-1, epochs as published or assumed. Writes the last section of docs/end-to-end.md.
#
# Usage: bench/end_to_end.sh [BUILD_FOLDER] [DOCUMENT]   (default: build, docs/end-to-end.md)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
document=${2:-$here/../docs/end-to-end.md}
if [ ! -x "$build/trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
/usr/bin/python3 -B "$here/peers/end_to_end.py" "$build/trireme" "$here/../examples/clusters" "$work" "$document"
