// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, table 2: bytes of
// activations that a block of GPT keeps for backward, in 16 bits, measured in runs with Megatron-LM's splits.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "program/compile.h"
#include "runtime/measured_run.h"
#include "validation/gpt_runs.h"

namespace trireme::validation {
namespace {

constexpr int64_t kPositions = 64, kWidth = 64, kHeads = 4, kSamples = 4, kWords = 8;
constexpr double kTolerance = 0.03;
constexpr int kFewBlocks = 8, kMoreBlocks = 16;  // of both, the peak is in the backward of the last block

GptRun run_of(int tensor, bool splits_sequence, Recomputed recomputed) {
  return {.heads = int(kHeads),
          .width = kWidth,
          .positions = kPositions,
          .words = kWords,
          .tensor = tensor,
          .batch = kSamples,
          .micro_batch = kSamples,
          .recomputed = recomputed,
          .splits_sequence = splits_sequence};
}

Batch tokens() {
  return {kSamples, [](Range range) {
            const at::Tensor ones = at::ones({range.size(), kPositions}, at::kLong);
            return std::vector<at::Tensor>{ones, ones};
          }};
}

/// Bytes of activations that each further block adds to the peak of rank 0.
double bytes_per_block(GptRun run) {
  const auto activations = [&](int blocks) {
    run.layers = blocks;
    const Model model = gpt(run);
    const Cluster cluster = Cluster::uniform(run.gpus());
    const Plan plan = gpt_plan(run, {.model = model, .cluster = cluster, .batch = run.batch});
    const Program program = compile(model, plan, {.mixed_precision = true});
    const test_support::MeasuredRun ran =
        test_support::measure_run(model, plan, program, tokens(), {}, Precision::bf16);
    return double(ran.rest.front().at_peak[size_t(MemoryCategory::activations)]);
  };
  return (activations(kMoreBlocks) - activations(kFewBlocks)) / double(kMoreBlocks - kFewBlocks);
}

/// s positions, b samples, h width, a heads, t tensor ranks. Two differences from the paper's runs are in the expected
/// numbers. What dropout gives in attention is computed again in backward, so scores count 3 as / h where the paper has
/// 5. Without recompute, the inputs of the two linear layers behind the norms are kept as they were gathered from a
/// split sequence; Megatron-LM always gathers them again.
TEST(ActivationsOfGpt, AreThoseOfTheFormulas) {
  const double sbh = double(kPositions * kSamples * kWidth);
  for (const int t : {1, 2, 4}) {
    const double scores = 3 * double(kHeads * kPositions) / double(kWidth * t), gathered = 4.0 - 4.0 / t;
    const auto expect = [&](bool splits_sequence, Recomputed recomputed, double units) {
      // Another rank may still read one tensor of a split sequence at the peak.
      const double read_late = splits_sequence ? 2.0 / t / (kMoreBlocks - kFewBlocks) : 0;
      EXPECT_NEAR(bytes_per_block(run_of(t, splits_sequence, recomputed)) / sbh, units, kTolerance * units + read_late)
          << "tensor " << t << (splits_sequence ? ", split sequence, " : ", ") << int(recomputed);
    };
    expect(false, Recomputed::nothing, 10 + 24.0 / t + scores);
    expect(false, Recomputed::attention, 10 + 24.0 / t);
    expect(false, Recomputed::blocks, 2);
    if (t == 1) continue;
    expect(true, Recomputed::nothing, 34.0 / t + gathered + scores);
    expect(true, Recomputed::attention, 34.0 / t);
    expect(true, Recomputed::blocks, 2.0 / t);
  }
}

}  // namespace
}  // namespace trireme::validation
