#!/usr/bin/env bash
# What takes too long for every change: the tests labelled slow, all of the fixed point, the simulator against published tables, the fuzz targets, 60 s each, 20 minutes of
# ranks that are killed, frozen and replaced, and where TRIREME_DATA names real data the levels that the examples reach. After ./test.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ctest --test-dir "$root/build" -L slow --no-tests=error --output-on-failure
"$root/bench/validation.sh" --check
"$root/scripts/fuzz.sh"
/usr/bin/python3 -B "$root/tests/fixed_point/fixed_point.py" "$root/build/trireme" "$root/examples" --check "$root/tests/fixed_point/portable.json"
/usr/bin/python3 -B "$root/bench/soak.py" "$root/build" 20  # kills, freezes and replaces the ranks of an elastic run
[[ -z "${TRIREME_DATA:-}" ]] || "$root/scripts/levels.py"
