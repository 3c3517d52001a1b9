// Published runs of GPT models on many GPUs: their models and plans.
#pragma once

#include <cstdint>
#include <string>

#include "validation/simulated.h"

namespace trireme::validation {

/// What runs again in backward.
enum class Recomputed {
  nothing,
  attention,  ///< selective: attention, and what is gathered for linear layers
  blocks,     ///< full: each block with its communication; only its input is kept
};

struct GptRun {
  int heads = 1;
  int64_t width = 1;
  int layers = 1;
  int64_t positions = 2048, words = 51200;
  int tensor = 1, data = 1, pipeline = 1;
  int64_t batch = 1, micro_batch = 1;  ///< samples
  int chunks = 1;                      ///< stages per GPU of an interleaved schedule
  Recomputed recomputed = Recomputed::blocks;
  bool splits_sequence = false;  ///< what tensor ranks have whole (norms, dropout, sums) is split along the sequence

  int gpus() const { return tensor * data * pipeline; }
  /// "tensor 8, data 4, pipeline 2, micro-batches of 4"
  std::string in_words() const;
};

/// The zoo's gpt2 at this size.
Model gpt(const GptRun& run);

/// Stages of equally many blocks; schedule 1f1b, or interleaved where there are several chunks.
Plan gpt_plan(const GptRun& run, const Setting& setting);

/// Seconds of a step of this run on the first devices of the cluster, in bf16 with Adam.
double gpt_step_seconds(const GptRun& run, const Model& model, const Cluster& cluster);

/// The cluster with the memory efficiency at which this run's step takes `seconds`.
Cluster with_fitted_memory(const Cluster& cluster, const GptRun& run, double seconds);

}  // namespace trireme::validation
