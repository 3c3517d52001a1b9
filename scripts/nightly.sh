#!/usr/bin/env bash
# What takes too long for every change: the tests labelled slow, and the fuzz targets, 60 s each. After ./test.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ctest --test-dir "$root/build" -L slow --no-tests=error --output-on-failure
"$root/scripts/fuzz.sh"
