// Published runs of GPT and Llama models on many GPUs: their models and plans.
#pragma once

#include <cstdint>
#include <string>

#include "base/memory.h"
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
  int64_t hidden = 0;  ///< of Llama's feed-forward layer; 0: a GPT-2
  int key_heads = 0;   ///< Llama: heads of keys; 0: `heads`
  int tensor = 1, data = 1, pipeline = 1;
  int64_t batch = 1, micro_batch = 1;  ///< samples
  int chunks = 1;                      ///< stages per GPU of an interleaved schedule
  Recomputed recomputed = Recomputed::blocks;
  OptimizerSharding sharding = OptimizerSharding::none;
  int sharding_group = 0;  ///< Plan::sharding_group
  bool stores_bf16_gradients = false;
  bool gathers_logits = false;   ///< every tensor rank computes the loss of all words
  bool splits_context = false;   ///< the tensor ranks divide the positions of every layer, and nothing else
  bool splits_sequence = false;  ///< what tensor ranks have whole (norms, dropout, sums) is split along the sequence

  int gpus() const { return tensor * data * pipeline; }
  /// "tensor 8, data 4, pipeline 2, micro-batches of 4"
  std::string in_words() const;
};

/// The zoo's gpt2 or llama at this size.
Model gpt(const GptRun& run);

/// Stages of equally many blocks; schedule 1f1b, or interleaved where there are several chunks.
Plan gpt_plan(const GptRun& run, const Setting& setting);

/// Seconds of a step of this run on the first devices of the cluster, in bf16 with Adam.
double gpt_step_seconds(const GptRun& run, const Model& model, const Cluster& cluster);

/// Memory with Adam in bf16 of one rank of each kind; the first is rank 0, of the first stage.
std::vector<MemoryUse> gpt_memory(const GptRun& run, const Model& model, const Cluster& cluster);
/// The one with the greatest peak.
MemoryUse greatest_gpt_memory(const GptRun& run, const Model& model, const Cluster& cluster);

constexpr double kGibibyte = 1 << 30;

/// The cluster with the efficiency of products in bf16 at which this run's step takes `seconds`.
Cluster with_fitted_efficiency(const Cluster& cluster, const GptRun& run, double seconds);
/// That efficiency.
double efficiency_of(const Cluster& cluster);

/// The cluster with the memory efficiency at which this run's step takes `seconds`.
Cluster with_fitted_memory(const Cluster& cluster, const GptRun& run, double seconds);

}  // namespace trireme::validation
