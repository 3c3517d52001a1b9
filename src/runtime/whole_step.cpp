#include "runtime/whole_step.h"

namespace trireme {

std::string obstacle_to_whole_steps(const Program& program, const Model& model) {
  if (!program.private_replicas) return "workers share one copy of the weights";
  if (program.optimizer_sharding != OptimizerSharding::none) return "the optimizer's state is divided";
  if (program.compression.kind == Compression::Kind::powersgd) return "PowerSGD keeps error feedback on each worker";
  if (program.greatest_lag > 0) return "batches overlap";
  for (const Op& op : program.ops) {
    if (op.stage > 0) return "the plan is a pipeline";
    if (op.mesh.data != program.devices) return "the plan divides layers";
    if (!model.node(op.node).layer->states().empty()) return "layers carry state from step to step";
  }
  return "";
}

}  // namespace trireme
