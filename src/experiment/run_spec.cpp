#include "experiment/run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/text.h"
#include "data/text/repadded_set.h"
#include "metrics/metrics.h"
#include "trireme/error.h"
#include "zoo/imported.h"

namespace trireme {

RunSpec with_batch_on(RunSpec experiment, int devices) {
  if (!awaits_devices(experiment)) return experiment;
  const int64_t batch = experiment.batch_per_device * devices;
  const auto refuse = [&](const char* key, std::string why, std::string next) {
    fail_user({experiment.where(key),
               fmt::format("{} per device on {}", experiment.batch_per_device, counted(devices, "device")),
               std::move(why), std::move(next)});
  };
  if (batch > kMostSamples)
    refuse("batch", fmt::format("no batch has {} samples", batch), fmt::format("use at most {} in all", kMostSamples));
  if (experiment.micro_batches > batch)
    refuse("micro_batches", fmt::format("the global batch of {} has fewer samples than micro-batches", batch),
           fmt::format("use at most {}", batch));
  experiment.batch = batch;
  experiment.batch_devices = devices;
  return experiment;
}

std::vector<std::string> frozen_of(const RunSpec& experiment) {
  std::vector<std::string> frozen = experiment.frozen;
  frozen.insert(frozen.end(), experiment.model_findings.frozen.begin(), experiment.model_findings.frozen.end());
  return frozen;
}

CompileOptions compile_options(const RunSpec& experiment, bool training) {
  return {.training = training,
          .clip_gradients = experiment.clip_norm > 0,
          .measures_norm = experiment.gradient_norm,
          .layer_norms = experiment.optimizer.is_layerwise() || experiment.noise_scale,
          .mixed_precision = experiment.precision == Precision::bf16,
          .batch_norm = experiment.batch_norm,
          .private_replicas = experiment.private_replicas,
          .frozen = frozen_of(experiment)};
}

namespace {

[[noreturn]] void fail_model(const Experiment& e, const Dataset& set, bool tokens) {
  const std::vector<std::string> fitting = models_for(set.task(), tokens);
  const bool does_task = does(e.model_name, set.task(), !tokens);
  fail_user({.where = e.model_where.empty() ? e.file.string() : e.model_where,
             .what = e.model_name,
             .why = does_task
                        ? fmt::format("it reads {}, data set {} holds {}", tokens ? "numbers" : "token ids",
                                      e.data.name, tokens ? "token ids" : "numbers")
                        : fmt::format("it is not for {}, the task of data set {}", name_of(set.task()), e.data.name),
             .next = fitting.empty() ? "choose another data set" : fmt::format("models that fit: {}", join(fitting))});
}

void check_target(const Experiment& e, LearningTask task) {
  if (!e.target) return;
  const std::string metric = main_metric(task);
  if (!kind_of_metric(metric).is_share || (*e.target > 0 && *e.target <= 1)) return;
  fail_user(
      {.where = e.where("target"),
       .what = fmt::format("{:g}", *e.target),
       .why = fmt::format("the {} of {} is a share, between 0 and 1", kind_of_metric(metric).title, name_of(task)),
       .next = "write 0.98 for 98 %"});
}

void check_beam(const Experiment& e, LearningTask task) {
  if (e.beam == 1 || task == LearningTask::translation) return;
  fail_user({.where = e.where("translation.beam"),
             .what = fmt::format("{}", e.beam),
             .why = fmt::format("data set {} is for {}", e.data.name, name_of(task)),
             .next = "leave it out"});
}

void check_padding(const Experiment& e, const Dataset& set) {
  if (e.pad_to_multiple_of == 0) return;
  if (!e.model_file.empty())
    fail_user({.where = e.where("data.pad_to_multiple_of"),
               .what = fmt::format("{}", e.pad_to_multiple_of),
               .why = fmt::format("a model of a file ({}) is imported for one length of sentences",
                                  e.model_file.filename().string()),
               .next = "leave it out"});
  const auto* padded = dynamic_cast<const PaddedSet*>(&set);
  if (!padded)
    fail_user({.where = e.where("data.pad_to_multiple_of"),
               .what = fmt::format("{}", e.pad_to_multiple_of),
               .why = fmt::format("samples of data set {} have no padding", e.data.name),
               .next = "leave it out"});
  const PartLengths whole = padded->padded_parts();
  const int64_t longest = std::max(whole.first, whole.second);
  if (e.pad_to_multiple_of > longest)
    fail_user(
        {.where = e.where("data.pad_to_multiple_of"),
         .what = fmt::format("{}", e.pad_to_multiple_of),
         .why = fmt::format("sentences have {} tokens at most, so every sentence would have the full padding", longest),
         .next = "use a smaller multiple, as 4 or 8, or a larger data.sequence"});
}

}  // namespace

Model build_model(RunSpec& experiment, const TaskData& data) {
  const Dataset& set = *data.train;
  const bool tokens = set.vocabulary() > 0, imported = !experiment.model_file.empty();
  if (!imported && !does(experiment.model_name, set.task(), tokens)) fail_model(experiment, set, tokens);
  check_target(experiment, set.task());
  check_beam(experiment, set.task());
  check_padding(experiment, set);
  experiment.model_findings = {.tokens = tokens};
  const ModelSpec spec = model_spec(experiment, set);
  if (!imported) return make_model(spec);
  ImportedModel model = import_model(experiment.model_file, spec);
  experiment.model_findings.frozen = model.frozen;
  experiment.model_findings.notes = model.notes;
  return model.model.with_initial_values({.tensors = std::move(model.initial_values), .report = {}});
}

void note_model(RunSpec& experiment, const TaskData& data) {
  check_target(experiment, data.train->task());
  check_beam(experiment, data.train->task());
  experiment.model_findings = {.tokens = data.train->vocabulary() > 0};
}

}  // namespace trireme
