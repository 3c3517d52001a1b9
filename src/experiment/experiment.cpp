#include "experiment/experiment.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/config.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/text/repadded_set.h"
#include "metrics/metrics.h"
#include "model/weights/read_weights.h"
#include "zoo/imported.h"

namespace trireme {
namespace {

/// The value of worker `worker`, of a list that must be long enough for `devices`.
template <class Value>
const Value& of_worker(const std::vector<Value>& list, int worker, int devices, const Experiment& e, const char* key) {
  if (list.size() < size_t(devices))
    fail_user({e.file.string(), fmt::format("{} lists {} of {} devices", key, list.size(), devices), "each needs a value",
               "list more or compare on fewer devices"});
  return list[size_t(worker)];
}

}  // namespace

std::vector<int> threads_of(const Experiment& experiment, int devices) {
  const auto& list = experiment.device_threads;
  std::vector<int> threads;
  for (int d = 0; d < devices; ++d)
    threads.push_back(list.empty() ? experiment.threads : of_worker(list, d, devices, experiment, "device_threads"));
  return threads;
}

Cluster cluster_of(const Experiment& experiment, int devices) {
  Cluster cluster = Cluster::uniform(devices, experiment.device_memory);
  const std::vector<int> threads = threads_of(experiment, devices);
  for (int d = 0; d < devices; ++d)
    cluster.devices[size_t(d)].speed = experiment.device_speeds.empty()
                                           ? double(threads[size_t(d)])
                                           : of_worker(experiment.device_speeds, d, devices, experiment, "device_speeds");
  return cluster;
}

const char* name_of(BatchNormScope scope) {
  switch (scope) {
    case BatchNormScope::local: return "local";
    case BatchNormScope::global: return "global";
    case BatchNormScope::deferred: return "deferred";
  }
  return "?";
}

CompileOptions compile_options(const Experiment& experiment, bool training) {
  return {.training = training, .clip_gradients = experiment.clip_norm > 0, .layer_norms = experiment.optimizer.is_layerwise() || experiment.noise_scale,
          .mixed_precision = experiment.precision == Precision::bf16, .batch_norm = experiment.batch_norm,
          .private_replicas = experiment.private_replicas, .frozen = experiment.frozen};
}

namespace {

[[noreturn]] void fail_model(const Experiment& e, const Dataset& set, bool tokens) {
  const std::vector<std::string> fitting = models_for(set.task(), tokens);
  const bool does_task = does(e.model_name, set.task(), !tokens);
  fail_user({.where = e.model_where.empty() ? e.file.string() : e.model_where,
             .what = e.model_name,
             .why = does_task ? fmt::format("it reads {}, data set {} holds {}", tokens ? "numbers" : "token ids", e.data.name,
                                            tokens ? "token ids" : "numbers")
                              : fmt::format("it is not for {}, which data set {} is for", name_of(set.task()), e.data.name),
             .next = fitting.empty() ? "choose another data set" : fmt::format("models that fit: {}", join(fitting))});
}

void check_target(const Experiment& e, LearningTask task) {
  if (!e.target) return;
  const std::string metric = main_metric(task);
  if (!kind_of_metric(metric).is_share || (*e.target > 0 && *e.target <= 1)) return;
  fail_user({.where = fmt::format("{}: target", e.file.string()),
             .what = fmt::format("{:g}", *e.target),
             .why = fmt::format("the {} of {} is a share, between 0 and 1", kind_of_metric(metric).title, name_of(task)),
             .next = "write 0.98 for 98 %"});
}

void check_beam(const Experiment& e, LearningTask task) {
  if (e.beam == 1 || task == LearningTask::translation) return;
  fail_user({.where = fmt::format("{}: translation.beam", e.file.string()),
             .what = fmt::format("{}", e.beam),
             .why = fmt::format("data set {} is for {}", e.data.name, name_of(task)),
             .next = "leave it out"});
}

void check_padding(const Experiment& e, const Dataset& set) {
  if (e.pad_to_multiple_of == 0) return;
  if (!e.model_file.empty())
    fail_user({.where = fmt::format("{}: data.pad_to_multiple_of", e.file.string()),
               .what = fmt::format("{}", e.pad_to_multiple_of),
               .why = fmt::format("a model of a file ({}) is imported for one length of sentences", e.model_file.filename().string()),
               .next = "leave it out"});
  const auto* padded = dynamic_cast<const PaddedSet*>(&set);
  if (!padded)
    fail_user({.where = fmt::format("{}: data.pad_to_multiple_of", e.file.string()),
               .what = fmt::format("{}", e.pad_to_multiple_of),
               .why = fmt::format("samples of data set {} have no padding", e.data.name),
               .next = "leave it out"});
  const PartLengths whole = padded->padded_parts();
  const int64_t longest = std::max(whole.first, whole.second);
  if (e.pad_to_multiple_of > longest)
    fail_user({.where = fmt::format("{}: data.pad_to_multiple_of", e.file.string()),
               .what = fmt::format("{}", e.pad_to_multiple_of),
               .why = fmt::format("sentences have {} tokens at most: every one would take all the padding", longest),
               .next = "use a smaller multiple, as 4 or 8, or a larger data.sequence"});
}

/// Of regression, about where the targets lie: the mean of the first ones.
std::vector<double> target_offsets(const Dataset& set) {
  constexpr int64_t kSome = 64;
  if (set.task() != LearningTask::regression || set.size() == 0) return {};
  std::vector<int64_t> first(size_t(std::min(kSome, set.size())));
  std::iota(first.begin(), first.end(), 0);
  const at::Tensor means = set.get(first, {}).target.to(at::kDouble).reshape({int64_t(first.size()), -1}).mean(0);
  return {means.data_ptr<double>(), means.data_ptr<double>() + means.numel()};
}

/// What the model is built for, in the zoo's words.
ModelSpec spec_of(const Experiment& e, const Dataset& set) {
  return {.name = e.model_name, .sample_shape = set.sample_shape(), .classes = set.classes(), .options = e.model_options,
          .task = set.task(), .target_shape = set.target_shape(), .vocabulary = set.vocabulary(), .label_smoothing = e.label_smoothing,
          .target_offsets = target_offsets(set)};
}

}  // namespace

Model build_model(Experiment& experiment, const TaskData& data) {
  const Dataset& set = *data.train;
  const bool tokens = set.vocabulary() > 0, imported = !experiment.model_file.empty();
  if (!imported && !does(experiment.model_name, set.task(), tokens)) fail_model(experiment, set, tokens);
  check_target(experiment, set.task());
  check_beam(experiment, set.task());
  check_padding(experiment, set);
  experiment.tokens = tokens;
  const ModelSpec spec = spec_of(experiment, set);
  if (!imported) return make_model(spec);
  ImportedModel model = import_model(experiment.model_file, spec);
  experiment.frozen.insert(experiment.frozen.end(), model.frozen.begin(), model.frozen.end());
  experiment.model_notes.insert(experiment.model_notes.end(), model.notes.begin(), model.notes.end());
  return model.model.with_initial_values({.tensors = std::move(model.initial_values), .report = {}});
}

Model build_model(const Experiment& experiment, const RepaddedSet& set) {
  ModelSpec spec = spec_of(experiment, set);
  spec.padded_positions = element_count(set.whole().target_shape());
  return make_model(spec);
}

Model with_initial_weights(const Experiment& experiment, const Model& model) {
  if (!experiment.initial_weights) return model;
  const InitialWeights& wanted = *experiment.initial_weights;
  const std::filesystem::path path = weights_file(wanted.path);
  const Weights file = read_weights(path);
  MatchOptions options = wanted.match;
  options.not_tensors = file.not_tensors;
  WeightsMatch match = match_weights(model, file.tensors, options, path.string());
  InitialValues values;
  if (model.initial_values()) values = *model.initial_values();
  values.report += render(match, model, path.string());
  for (auto& [name, tensor] : match.tensors) values.tensors.insert_or_assign(name, std::move(tensor));
  return model.with_initial_values(std::move(values));
}

std::optional<ModelSpec> zoo_spec(const Experiment& experiment, const TaskData& data) {
  if (!experiment.model_file.empty()) return std::nullopt;
  return spec_of(experiment, *data.train);
}

int loading_threads_of(const Experiment& experiment, const Dataset& set) {
  return experiment.loading_threads.value_or(set.decodes() ? 1 : 0);
}

double learning_rate_at(const Experiment& e, int64_t step, int64_t total, int64_t steps_per_epoch) {
  return scheduled_rate(e.schedule, e.optimizer.learning_rate, e.batch, step, total, steps_per_epoch);
}

}  // namespace trireme
