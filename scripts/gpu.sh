#!/usr/bin/env bash
# Builds against a CUDA libtorch, runs the tests of training on the GPU, measures steps beside PyTorch's, and replaces what docs/gpu.md says of it.
# Usage: scripts/gpu.sh [BUILD_FOLDER]   (default: build-gpu)
# PYTHON names the interpreter whose PyTorch brings the libtorch (default: python3). TRIREME_BUILT=1 takes the folder as it is and builds nothing.
# ROUNDS: alternations of each measurement (default 3). PARTS: the test programs to run, without _test (default: those that train on a device under test).
# TEST_SECONDS: limit of each test program (default 900). JOBS: test programs at the same time (default 4).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build-gpu} python=${PYTHON:-python3} rounds=${ROUNDS:-3}
read -ra parts <<< "${PARTS:-$(printf 'equivalence_%s ' dense conv norm plans schedules sequence transformer options optimizers) replicas migration}"
readonly MARK='<!-- below: written by scripts/gpu.sh -->'

torch=$("$python" -c 'import os, torch; assert torch.cuda.is_available(); print(os.path.dirname(torch.__file__))') || {
  echo "gpu: $python has no PyTorch that sees a GPU; name another interpreter with PYTHON" >&2
  exit 1
}
if [ "${TRIREME_BUILT:-0}" != 1 ]; then
  capability=$("$python" -c 'import torch; print(".".join(map(str, torch.cuda.get_device_capability())))')
  TORCH_CUDA_ARCH_LIST=$capability cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$torch"
  # shellcheck disable=SC2046
  cmake --build "$build" --target trireme train_step $(printf '%s_test ' "${parts[@]}")
fi

report=$build/gpu-report.md  # grows as it is measured, so that nothing is lost if a later part fails
{
  echo
  echo "## Measured"
  echo
  "$python" -c 'import torch; p = torch.cuda.get_device_properties(0)
print(f"{p.name}, {p.total_memory / 2**30:.0f} GiB; CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, PyTorch {torch.__version__}; "
      f"{torch.cuda.device_count()} GPU")'
  nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1 | sed 's/^/driver /'
  echo
  echo "Tests with workers on the GPU, among them that of every plan against one device on the CPU, by test program (\`TRIREME_TEST_DEVICE=cuda\`):"
  echo
  echo "| program | tests passed | tests failed | exit code (124: time limit) |"
  echo "|---|---|---|---|"
} > "$report"
failed=0  # several at once: each waits for the host most of the time
# shellcheck disable=SC2016
printf '%s\n' "${parts[@]}" | TRIREME_TEST_DEVICE=cuda xargs -P "${JOBS:-4}" -I{} sh -c \
  'code=0; timeout "$1" "$2/tests/{}_test" > "$3.{}" 2>&1 || code=$?; echo $code > "$3.{}.code"; exit $((code != 0))' \
  sh "${TEST_SECONDS:-900}" "$build" "$report" || failed=1
for part in "${parts[@]}"; do
  echo "| \`${part}_test\` | $(grep -c '^\[       OK' "$report.$part" || true) | $(grep -c '^\[  FAILED  \].*ms)' "$report.$part" || true) | $(cat "$report.$part.code") |" >> "$report"
  grep -A6 'Failure' "$report.$part" | head -40 >&2 || true
done
{
  echo
  echo "Training steps on one GPU, in samples per second: median (least to most) of $rounds alternating runs (\`bench/gpu.sh\`)."
  echo
  PYTHON=$python bench/gpu.sh "$build" "$rounds"
} >> "$report"
{
  awk -v mark="$MARK" '{ print } $0 == mark { exit }' docs/gpu.md
  cat "$report"
} > "$report.page"
cp "$report.page" docs/gpu.md
exit $failed
