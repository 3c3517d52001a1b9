// The settings of Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv 2401.10241), with published and
// simulated bubbles.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::validation {

/// Seconds of one micro-batch through one worker's stages, and of a message between two workers.
struct StageSeconds {
  double forward, backward_input, backward_weight, message;
  double all() const { return forward + backward_input + backward_weight; }
};

/// Shares of the time: published, or predicted.
struct Bubbles {
  double plain, interleaved, h1, h2, one_p = 0, two_p = 0, v = 0;
};

/// Layers' width and heads; the sequence has 1024 words (table 3).
struct Sizes {
  int64_t width, heads;
};

struct PipelineRun {
  const char* model;
  int depth, micro_batches, chunks;
  StageSeconds milliseconds;
  Bubbles published;
  Sizes sizes = {};
  std::string what() const { return fmt::format("{}, p = {}, m = {}", model, depth, micro_batches); }
};

/// Table 9 with the bubbles of table 5.
const std::vector<PipelineRun>& profiled_runs();
/// The predictions for profiled_runs.
const std::vector<Bubbles>& profiled_bubbles();
/// The same for the schedule zero-bubble-2p.
const std::vector<double>& fixed_bubbles();

/// Table 8, with twice the times of the authors' script, which are those of half a worker's layers.
const std::vector<PipelineRun>& larger_runs();
/// The predictions for larger_runs.
const std::vector<Bubbles>& larger_bubbles();

/// True if 1F1B-I has the published bubbles when, as the authors compute it, only the first micro-batch of each group
/// of p waits for its input from the last worker to the first, and back.
bool seam_explains(const std::vector<PipelineRun>& runs);

}  // namespace trireme::validation
