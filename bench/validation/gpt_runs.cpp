#include "validation/gpt_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost/datasheet_costs.h"
#include "cost/memory.h"
#include "program/compile.h"
#include "runtime/optimizers/optimizer_kind.h"
#include "sim/simulate.h"
#include "trireme/zoo.h"

namespace trireme::validation {
namespace {

constexpr int kAdamStates = 2;
constexpr double kLeastEfficiency = 0.2;

/// The second linear layer of a pair.
bool is_second(std::string_view name) {
  return name.ends_with("c_proj") || name.ends_with("o_proj") || name.ends_with("down_proj");
}

/// Shoeybi et al., 2019: linear layers in pairs, by columns and by rows, with what lies between them; heads of
/// attention; words of the embedding. Everything else is whole, or split along the sequence (Korthikanti et al., 2022).
/// Or nothing but positions is divided.
void split_as_megatron(const GptRun& run, const Model& model, Plan& plan) {
  for (NodeId id = model.input_count(); id < NodeId(plan.layers.size()); ++id) {
    LayerPlan& layer = plan.layers[size_t(id)];
    const std::string_view kind = model.node(id).layer->kind(), name = model.node(id).name;
    const char* rest = run.splits_sequence ? "sequence" : "replicate";
    if (run.splits_context) layer.split = "sequence";
    else if (kind == "softmax_cross_entropy" && run.gathers_logits) layer.split = "replicate";
    else if (kind == "embedding" || kind == "softmax_cross_entropy") layer.split = "vocabulary";
    else if (kind == "attention") layer.split = "heads";
    else if (kind == "linear") layer.split = is_second(name) ? "rows" : "columns";
    else layer.split = name.ends_with(".act") || kind == "rotary_embedding" ? "features" : rest;
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
  spec.name = run.hidden > 0 ? "llama" : "gpt2";
  spec.sample_shape = spec.target_shape = {run.positions};
  spec.classes = spec.vocabulary = run.words;
  spec.task = LearningTask::language;
  spec.options = {{"layers", run.layers}, {"width", double(run.width)}, {"heads", run.heads}};
  if (run.hidden > 0) {
    spec.options["hidden"] = double(run.hidden);
    spec.options["key_heads"] = run.key_heads;
    spec.options["tied"] = 0;
  } else {
    spec.options["positions"] = double(run.positions);
  }
  return make_model(spec);
}

Plan gpt_plan(const GptRun& run, const Setting& setting) {
  const Degrees degrees{.data = run.data,
                        .tensor = run.tensor,
                        .pipeline = run.pipeline,
                        .micro_batches = int(run.batch / run.data / run.micro_batch),
                        .chunks = run.chunks};
  Plan plan = block_plan(setting, degrees, run.chunks > 1 ? "interleaved" : "1f1b");
  if (run.tensor > 1) split_as_megatron(run, setting.model, plan);
  plan.micro_batches = degrees.micro_batches;
  plan.optimizer_sharding = run.sharding;
  plan.sharding_group = run.sharding_group;
  plan.scatter_messages = run.tensor > 1;
  // gradients are summed in 16 bits
  plan.compression.kind = run.stores_bf16_gradients ? Compression::Kind::bf16_stored : Compression::Kind::bf16;
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

std::vector<MemoryUse> gpt_memory(const GptRun& run, const Model& model, const Cluster& cluster) {
  const Setting setting{.model = model, .cluster = cluster, .batch = run.batch, .precision = Precision::bf16};
  const Plan plan = gpt_plan(run, setting);
  validate(plan, model, run.batch, plan.name);
  const Program program = compile(model, plan, {.mixed_precision = true, .private_replicas = true, .checked = false});
  const Cluster used = part_of(cluster, run.gpus());
  const DatasheetCosts costs(model, used, Precision::bf16, kAdamStates);
  const std::vector<int> ranks = representatives(program, used, run.batch);
  return predict_memory(program, model, costs,
                        {.batch = run.batch,
                         .precision = Precision::bf16,
                         .optimizer = {.kind = &kAdam},
                         .input_types = {c10::ScalarType::Long, c10::ScalarType::Long}},
                        ranks);
}

MemoryUse greatest_gpt_memory(const GptRun& run, const Model& model, const Cluster& cluster) {
  const std::vector<MemoryUse> uses = gpt_memory(run, model, cluster);
  return *std::max_element(uses.begin(), uses.end(),
                           [](const MemoryUse& a, const MemoryUse& b) { return a.peak < b.peak; });
}

Cluster with_fitted_efficiency(const Cluster& cluster, const GptRun& run, double seconds) {
  const Model model = gpt(run);
  const double share = solve(kLeastEfficiency, 1, seconds,
                             [&](double s) { return gpt_step_seconds(run, model, with_efficiency(cluster, s)); });
  return with_efficiency(cluster, share);
}

double efficiency_of(const Cluster& cluster) {
  return cluster.kinds.front().speeds.at(name_of(Precision::bf16)).greatest_efficiency;
}

Cluster with_fitted_memory(const Cluster& cluster, const GptRun& run, double seconds) {
  const Model model = gpt(run);
  const double share = solve(kLeastEfficiency, 1, seconds, [&](double s) {
    return gpt_step_seconds(run, model, with_memory_efficiency(cluster, s));
  });
  return with_memory_efficiency(cluster, share);
}

}  // namespace trireme::validation
