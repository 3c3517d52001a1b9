#!/usr/bin/env bash
# Checks that take too long for every change; they run after ./test:
# - the tests labelled slow
# - the tests of completion in every shell
# - the benchmarks, only compiled
# - all configurations of the fixed point
# - the simulator, compared with published tables
# - if TRIREME_DATA names real data: predictions of this machine, and what the planner's choice costs, against their goals
# - 20 minutes of an elastic run with ranks that are killed, frozen and replaced
# - the analysis of locks in all files
# - clang-tidy for all changed files
# - the unit and equivalence tests, built with sanitizers (build-asan, build-tsan)
# - the fuzz targets, 60 s each
# - as root: the packages for Debian 12 and 13, built and tested in clean systems, and the container image
# - the levels that the examples reach, if TRIREME_DATA names real data; on Sundays docs/levels gets the figures
# If a part fails the others still run; the last line names the failed parts.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
source scripts/parts.sh
scripts/setup.sh packages.txt packages-check.txt packages-nightly.txt

# Sanitized tests run one at a time: most have as many threads as there are cores.
sanitized() {
  cmake --preset "$1" && cmake --build --preset "$1" --parallel 2 && ctest --preset "$1" -L '^(unit|equivalence)$' --no-tests=error
}

part "slow tests" ctest --test-dir build -L slow --no-tests=error --output-on-failure
part "completion in every shell" ctest --test-dir build -R cli_pages_test --no-tests=error --output-on-failure
part benchmarks scripts/build.sh benchmarks
part validation bench/validation.sh --check
if [ -n "${TRIREME_DATA:-}" ]; then  # timing: fails on a machine that is not idle
  part "predictions of this machine" /usr/bin/python3 -B bench/prediction.py --check
  part regret /usr/bin/python3 -B bench/regret.py --check
  [ "$(id -u)" -ne 0 ] || part "regret between processes" /usr/bin/python3 -B bench/regret.py --processes --check
fi
part "fixed point" /usr/bin/python3 -B tests/fixed_point/fixed_point.py "$root/build/trireme" "$root/examples" \
  --check tests/fixed_point/portable.json
part soak /usr/bin/python3 -B bench/soak.py "$root/build" 20  # kills, freezes and replaces the ranks of an elastic run
part thread-safety scripts/lint.py thread-safety --all
part clang-tidy scripts/lint.py tidy  # also the files for which CI has no time
part "address and undefined-behaviour sanitizers" sanitized asan
part "thread sanitizer" sanitized tsan
part fuzz scripts/fuzz.sh
package() {
  local folder code=0
  folder=$(mktemp -d)
  scripts/package_build.sh --suite "$1" "$folder" && scripts/package_test.sh --suite "$1" "$folder"/*.deb || code=$?
  rm -rf "$folder"
  return "$code"
}
if [ "$(id -u)" -eq 0 ]; then
  part "package for Debian 12" package bookworm
  part "package for Debian 13" package trixie
  part "container image" scripts/container_test.sh
fi
[[ -z "${TRIREME_DATA:-}" ]] || part levels scripts/levels.py $([ "$(date +%u)" -ne 7 ] || echo --append)
end_of_parts
