#include "forecast/predict.h"

#include <algorithm>

#include "experiment/make_plan.h"
#include "experiment/replica_spec.h"
#include "forecast/agreement/predict_agreement.h"
#include "forecast/agreement_plan.h"
#include "plan/named.h"

namespace trireme {

LayerSeconds layer_seconds(const Model& model, const CostSource& source, int64_t samples) {
  LayerSeconds seconds(model.nodes().size(), 0.0);
  const int kind = source.cluster.devices.front().kind;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const ShardingOption whole = model.node(id).layer->sharding_options(model.input_shapes(id), 1).front();
    const LayerCost cost = source.layers->seconds(id, whole, 1, samples, kind);
    seconds[size_t(id)] = cost.forward + cost.backward;
  }
  return seconds;
}

Plan make_plan(const std::string& name, const RunSpec& experiment, const Model& model, const CostSource& source) {
  if (is_plan_file(name)) return make_plan(name, experiment, model, source.cluster.size());
  if (is_update_policy(name)) return plan_with_agreement(name, experiment, model, source.cluster.size());
  if (awaits_devices(experiment))
    return make_plan(name, with_batch_on(experiment, source.cluster.size()), model, source);
  const Plan draft = named_plan(name, model, source.cluster, experiment.batch, {}, experiment.micro_batches);
  if (draft.stages.size() == 1) return draft;
  const int64_t samples = std::max<int64_t>(1, experiment.batch / draft.micro_batches / draft.layers.back().data);
  return named_plan(name, model, source.cluster, experiment.batch, layer_seconds(model, source, samples),
                    experiment.micro_batches);
}

RunResult predict(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                  const PredictionOptions& options) {
  if (awaits_devices(experiment)) return predict(with_batch_of(experiment, plan), model, plan, source, options);
  return plan.agreement.empty() ? predict_program(experiment, model, plan, source, options).row
                                : predict_agreement(experiment, model, plan, source, options);
}

}  // namespace trireme
