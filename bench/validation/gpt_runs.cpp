#include "validation/gpt_runs.h"

#include <fmt/format.h>

#include "trireme/zoo.h"

namespace trireme::validation {
namespace {

constexpr int kAdamStates = 2;
constexpr double kLeastEfficiency = 0.2;

/// Shoeybi et al., 2019: linear layers in pairs, by columns and by rows, with what lies between them; heads of
/// attention; words of the embedding. Everything else is whole, or split along the sequence (Korthikanti et al., 2022).
void split_as_megatron(const Model& model, bool splits_sequence, Plan& plan) {
  for (NodeId id = model.input_count(); id < NodeId(plan.layers.size()); ++id) {
    LayerPlan& layer = plan.layers[size_t(id)];
    const std::string_view kind = model.node(id).layer->kind(), name = model.node(id).name;
    const char* rest = splits_sequence ? "sequence" : "replicate";
    if (kind == "embedding" || kind == "softmax_cross_entropy") layer.split = "vocabulary";
    else if (kind == "attention") layer.split = "heads";
    else if (kind == "linear") layer.split = name.ends_with("c_proj") ? "rows" : "columns";
    else layer.split = name.ends_with(".act") ? "features" : rest;
  }
}

void set_recomputed(const GptRun& run, const Model& model, Plan& plan) {
  if (run.recomputed == Recomputed::nothing) return;
  plan.recompute_communication = true;
  if (run.recomputed == Recomputed::blocks) recompute_blocks(model, /*last=*/true, plan);
  else label_selectively(model, plan);
}

}  // namespace

std::string GptRun::in_words() const {
  return fmt::format("tensor {}, data {}, pipeline {}, micro-batches of {}", tensor, data, pipeline, micro_batch);
}

Model gpt(const GptRun& run) {
  ModelSpec spec;
  spec.name = "gpt2";
  spec.sample_shape = spec.target_shape = {run.positions};
  spec.classes = spec.vocabulary = run.words;
  spec.task = LearningTask::language;
  spec.options = {
      {"layers", run.layers}, {"width", double(run.width)}, {"heads", run.heads}, {"positions", double(run.positions)}};
  return make_model(spec);
}

Plan gpt_plan(const GptRun& run, const Setting& setting) {
  const Degrees degrees{.data = run.data,
                        .tensor = run.tensor,
                        .pipeline = run.pipeline,
                        .micro_batches = int(run.batch / run.data / run.micro_batch),
                        .chunks = run.chunks};
  Plan plan = block_plan(setting, degrees, run.chunks > 1 ? "interleaved" : "1f1b");
  if (run.tensor > 1) split_as_megatron(setting.model, run.splits_sequence, plan);
  plan.micro_batches = degrees.micro_batches;
  plan.scatter_messages = run.tensor > 1;
  plan.compression.kind = Compression::Kind::bf16;  // gradients are summed in 16 bits
  set_recomputed(run, setting.model, plan);
  return plan;
}

double gpt_step_seconds(const GptRun& run, const Model& model, const Cluster& cluster) {
  const Cluster used = part_of(cluster, run.gpus());
  const Setting setting{.model = model,
                        .cluster = used,
                        .batch = run.batch,
                        .precision = Precision::bf16,
                        .optimizer_states = kAdamStates};
  return step_seconds(setting, gpt_plan(run, setting));
}

Cluster with_fitted_memory(const Cluster& cluster, const GptRun& run, double seconds) {
  const Model model = gpt(run);
  const double share = solve(kLeastEfficiency, 1, seconds, [&](double s) {
    return gpt_step_seconds(run, model, with_memory_efficiency(cluster, s));
  });
  return with_memory_efficiency(cluster, share);
}

}  // namespace trireme::validation
