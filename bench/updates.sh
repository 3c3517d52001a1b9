#!/bin/sh
# The cost of update policies without communication, and local SGD over slow links.
#
# 1. The policies' calls in a step without an exchange (policy_calls).
# 2. A step of one worker under each policy, set to exchange after a million steps, compared with a step of the plan `single`, run in turns.
# 3. Two replicas on threads that average after every 16 steps over links of 100 Mbit/s, compared with the same two without links and averages. Times
#    are between the ends of two steps, so they do not contain the last average and evaluations.
#
# Usage: bench/updates.sh [BUILD_FOLDER] [ROUNDS]   (default: build, 5 rounds). Needs an idle machine with two cores.
# TRIREME_DATA: the folder with MNIST and CIFAR-10.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
build=${1:-$here/../build}
rounds=${2:-5}
trireme=$(find "$build" -maxdepth 2 -type f -name trireme -perm -u+x | head -n 1)
if [ -z "$trireme" ]; then
  echo "trireme was not found in '$build': build it with cmake --build $build --target trireme" >&2
  exit 2
fi
need "$build" bench/policy_calls
"$build/bench/policy_calls"
echo
use_folder
/usr/bin/python3 -B "$here/peers/updates_table.py" "$trireme" "$here/../examples" "$work" "$rounds"
