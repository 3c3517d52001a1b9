#!/usr/bin/env bash
# Runs the tests of the nccl backend with several processes, each of them one rank, on one GPU or several.
# Usage: nccl_ranks.sh PROCESSES TEST_PROGRAM [ARGUMENT...]
# NCCL refuses two ranks on one GPU of a machine. So each process says that it is a machine of its own, and NCCL moves the bytes over sockets.
set -euo pipefail
count=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WORLD_SIZE=$count TRIREME_TEST_STORE=$folder/store NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
for ((rank = count - 1; rank > 0; --rank)); do
  RANK=$rank NCCL_HOSTID=trireme$rank "$@" &
done
code=0
RANK=0 NCCL_HOSTID=trireme0 "$@" || code=$?
for job in $(jobs -p); do
  wait "$job" || code=$?
done
exit "$code"
