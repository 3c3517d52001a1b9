#!/usr/bin/env bash
# Training steps on one GPU beside PyTorch's, in alternation: samples per second, the median of each with the least and the most, and Trireme's
# median as a multiple of each.
# Usage: bench/gpu.sh [BUILD_FOLDER] [ROUNDS] [PATTERN]   (default: build, 3 rounds, all). PYTHON names the interpreter with a CUDA PyTorch.
# COMPILED_ROUNDS: how many of the rounds also run torch.compile, which takes a minute (default: all).
# Needs train_step built against the libtorch of that PyTorch.
set -euo pipefail
build=${1:-build} rounds=${2:-3} pattern=${3:-.}
python=${PYTHON:-python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
train_step=${TRAIN_STEP:-$build/bench/train_step}
if [ ! -x "$train_step" ]; then
  echo "train_step was not found in '$build/bench': build it with cmake --build $build --target train_step" >&2
  exit 1
fi

# name | flags of both | modes of torch.compile
cases=(
  "cifar-resnet18 fp32|--model cifar-resnet18 --batch 128 --steps 100 --warmup 10|reduce-overhead"
  "cifar-resnet18 bf16|--model cifar-resnet18 --batch 128 --precision bf16 --steps 100 --warmup 10|"
  "mnist-convnet fp32|--model mnist-convnet --sample 1 28 28 --batch 128 --steps 200 --warmup 10|reduce-overhead"
  "resnet50 bf16|--model resnet50 --sample 3 224 224 --classes 1000 --batch 128 --precision bf16 --steps 30 --warmup 6|"
  "vit-b16 bf16|--model vit-b16 --sample 3 224 224 --classes 1000 --batch 64 --precision bf16 --steps 20 --warmup 6|"
  "gpt2 bf16|--model gpt2 --sample 1024 --vocabulary 50257 --batch 8 --precision bf16 --steps 20 --warmup 6|"
)
# PyTorch's GPT-2 of peers/gpu.py has no dropout, and neither has Trireme's here.

median() { sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "" }'; }
spread() { sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%s (%s to %s)", v[int((NR + 1) / 2)], v[1], v[NR] }'; }

echo "| case | Trireme, samples/s | PyTorch eager | PyTorch compiled | Trireme / eager | Trireme / compiled |"
echo "|---|---|---|---|---|---|"
for case in "${cases[@]}"; do
  IFS='|' read -r name flags mode <<< "$case"
  [[ $name =~ $pattern ]] || continue
  own=() eager=() compiled=()
  for ((round = 0; round < rounds; ++round)); do
    # shellcheck disable=SC2086
    own+=("$("$train_step" --plan single --device cuda $flags $([[ $name == gpt2* ]] && echo --set probability=0))")
    # shellcheck disable=SC2086
    eager+=("$("$python" "$here/peers/gpu.py" $flags)")
    if [ -n "$mode" ] && [ "$round" -lt "${COMPILED_ROUNDS:-$rounds}" ]; then
      # shellcheck disable=SC2086
      compiled+=("$("$python" "$here/peers/gpu.py" $flags --compile "$mode")")
    fi
  done
  lines() { printf '%s\n' "$@" | grep .; }
  ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b }'; }
  o=$(lines "${own[@]}" | median) e=$(lines "${eager[@]}" | median) c=$(lines "${compiled[@]:-}" | median || true)
  echo "| $name | $(lines "${own[@]}" | spread) | $(lines "${eager[@]}" | spread) | $(lines "${compiled[@]:-}" | spread || true) |" \
       "$(ratio "$o" "$e") | $(ratio "$o" "${c:-0}") |"
done
