#include "experiment/make_plan.h"

#include <algorithm>
#include <filesystem>

#include "plan/named.h"
#include "plan/strategy.h"
#include "profile/layer_times.h"

namespace trireme {

bool is_plan_file(const std::string& name) {
  if (is_planned(name)) return false;
  const auto known = known_strategies();
  std::error_code ignored;
  return std::find(known.begin(), known.end(), name) == known.end() && std::filesystem::is_regular_file(name, ignored);
}

Plan make_plan(const std::string& name, const RunSpec& experiment, const Model& model, int devices) {
  if (is_plan_file(name)) {
    Plan plan = read_plan(name, model);
    validate(plan, model, experiment.batch, name);
    return plan;
  }
  const Cluster cluster = cluster_of(experiment, is_single(name) ? 1 : devices);
  Plan draft = named_plan(name, model, cluster, experiment.batch, {}, experiment.micro_batches);
  if (draft.stages.size() == 1) return draft;
  const int64_t samples = std::max<int64_t>(1, experiment.batch / draft.micro_batches / draft.layers.back().data);
  return named_plan(
      name, model, cluster, experiment.batch,
      profile_layers(model, experiment.precision, samples, experiment.seed, experiment.model_findings.tokens),
      experiment.micro_batches);
}

CompileOptions options_of(const RunSpec& experiment, const Plan& plan, bool training) {
  CompileOptions options = compile_options(experiment, training);
  if (!plan.agreement.empty()) options.private_replicas = false;
  return options;
}

}  // namespace trireme
