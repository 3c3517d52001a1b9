#include "experiment/experiment.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/counted.h"
#include "data/text/repadded_set.h"
#include "model/weights/read_weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the value of worker `worker`. Throws a user error if the list has fewer than `devices` values.
template <class Value>
const Value& of_worker(const std::vector<Value>& list, int worker, int devices, const Experiment& e, const char* key) {
  if (list.size() < size_t(devices))
    fail_user({e.where(key), fmt::format("lists {} of {} devices", list.size(), devices), "each needs a value",
               "list more or compare on fewer devices"});
  return list[size_t(worker)];
}

}  // namespace

std::string Experiment::where(std::string_view key) const {
  return keys ? keys->where(key) : fmt::format("{}: {}", file.string(), key);
}

std::string batch_in_words(const Experiment& experiment) {
  const int64_t each = experiment.batch_per_device;
  if (each == 0) return "";
  if (awaits_devices(experiment)) return fmt::format("{} samples per device", each);
  const std::string devices = counted(experiment.batch_devices, "device");
  const int64_t all = each * experiment.batch_devices;
  if (experiment.batch == all) return fmt::format("{} samples, {} on each of {}", all, each, devices);
  return fmt::format("{} samples, those of the checkpoint; {} on each of {} would be {}", experiment.batch, each,
                     devices, all);
}

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
    cluster.devices[size_t(d)].speed =
        experiment.device_speeds.empty() ? double(threads[size_t(d)])
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

namespace {

/// For regression: returns the mean of the first targets, one number per output, as an estimate of where all targets
/// lie. Empty for other tasks.
std::vector<double> target_offsets(const Dataset& set) {
  constexpr int64_t kSome = 64;
  if (set.task() != LearningTask::regression || set.size() == 0 || !has_samples(set)) return {};
  std::vector<int64_t> first(size_t(std::min(kSome, set.size())));
  std::iota(first.begin(), first.end(), 0);
  const at::Tensor means = set.get(first, {}).target.to(at::kDouble).reshape({int64_t(first.size()), -1}).mean(0);
  return {means.data_ptr<double>(), means.data_ptr<double>() + means.numel()};
}

}  // namespace

ModelSpec model_spec(const Experiment& e, const Dataset& set) {
  return {.name = e.model_name,
          .sample_shape = set.sample_shape(),
          .classes = set.classes(),
          .options = e.model_options,
          .task = set.task(),
          .target_shape = set.target_shape(),
          .vocabulary = set.vocabulary(),
          .label_smoothing = e.label_smoothing,
          .target_offsets = target_offsets(set)};
}

Model build_model(const Experiment& experiment, const RepaddedSet& set) {
  ModelSpec spec = model_spec(experiment, set);
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
  if (!wanted.note.empty()) values.report += wanted.note + "\n";
  values.report += render(match, model, path.string());
  for (auto& [name, tensor] : match.tensors) values.tensors.insert_or_assign(name, std::move(tensor));
  return model.with_initial_values(std::move(values));
}

std::optional<ModelSpec> zoo_spec(const Experiment& experiment, const TaskData& data) {
  if (!experiment.model_file.empty()) return std::nullopt;
  return model_spec(experiment, *data.train);
}

int loading_threads_of(const Experiment& experiment, const Dataset& set) {
  return experiment.loading_threads.value_or(set.decodes() ? 1 : 0);
}

double learning_rate_at(const Experiment& e, int64_t step, int64_t total, int64_t steps_per_epoch) {
  return scheduled_rate(e.schedule, e.optimizer.learning_rate, e.batch, step, total, steps_per_epoch);
}

}  // namespace trireme
