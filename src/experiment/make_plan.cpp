#include "experiment/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/devices/device.h"
#include "base/machine.h"
#include "base/units.h"
#include "experiment/run_device.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "profile/layer_times.h"

namespace trireme {
namespace {

constexpr double kMostFlops = 2e13;              // of a profile: one to three minutes of a core
constexpr int64_t kFewBytes = int64_t{1} << 30;  // every machine has these

/// A worker's share of a micro-batch, or the largest part of it that can be measured soon.
int64_t samples_to_measure(const Plan& plan, const RunSpec& experiment, const Model& model) {
  const int64_t share = std::max<int64_t>(1, experiment.batch / plan.micro_batches / plan.layers.back().data);
  const double of_one = profile_work(model, experiment.precision, 1).flops;
  return std::clamp<int64_t>(int64_t(kMostFlops / std::max(of_one, 1.0)), 1, share);
}

}  // namespace

bool is_plan_file(const std::string& name) {
  if (is_planned(name)) return false;
  const auto known = known_strategies();
  std::error_code ignored;
  return std::find(known.begin(), known.end(), name) == known.end() && std::filesystem::is_regular_file(name, ignored);
}

Plan make_plan(const std::string& name, const RunSpec& experiment, const Model& model, int devices) {
  if (is_plan_file(name)) {
    Plan plan = read_plan(name, model);
    validate(plan, model, with_batch_on(experiment, plan.workers()).batch, name);
    return plan;
  }
  if (awaits_devices(experiment))
    return make_plan(name, with_batch_on(experiment, is_single(name) ? 1 : devices), model, devices);
  const Cluster cluster = cluster_of(experiment, is_single(name) ? 1 : devices);
  Plan draft = named_plan(name, model, cluster, experiment.batch, {}, experiment.micro_batches);
  if (draft.stages.size() == 1 || !why_not_measured(draft, experiment, model).empty()) return draft;
  // A plan for GPUs can be made on a machine that has none: its stages are then balanced by times on cores.
  const bool on_gpus = !visible_devices(experiment.device).empty();
  const PlacedDevices placed(0, on_gpus ? places_of_run(experiment) : std::vector<c10::Device>{});
  return named_plan(name, model, cluster, experiment.batch,
                    profile_layers(model, experiment.precision, samples_to_measure(draft, experiment, model),
                                   experiment.seed, experiment.model_findings.tokens),
                    experiment.micro_batches);
}

std::string why_not_measured(const Plan& plan, const RunSpec& experiment, const Model& model) {
  if (plan.stages.size() == 1) return "";
  const ProfileWork work = profile_work(model, experiment.precision, samples_to_measure(plan, experiment, model));
  if (work.flops > kMostFlops) return fmt::format("measuring them here would take {:.2g} FLOPs", work.flops);
  if (work.bytes < kFewBytes) return "";
  const int64_t memory = inspect_machine(/*time_product=*/false).memory_bytes;
  if (work.bytes <= memory / 2) return "";
  return fmt::format("measuring them would need {}, and this machine has {}", format_bytes(work.bytes),
                     format_bytes(memory));
}

CompileOptions options_of(const RunSpec& experiment, const Plan& plan, bool training) {
  CompileOptions options = compile_options(experiment, training);
  if (!plan.agreement.empty()) options.private_replicas = false;
  return options;
}

}  // namespace trireme
