// Virtual time (comm/virtual/virtual_time.h) as the cost model has it: what a simulation takes its seconds from, asked
// for by workers that compute.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "comm/virtual/virtual_time.h"
#include "cost/instruction_costs.h"
#include "runtime/instruction_times.h"

namespace trireme {

/// Transfers over `links`, each of whose pools is a connection: who comes first has it, where a simulation divides it.
/// A broadcast is charged as an all_gather of the tensor. Links whose receivers move the bytes themselves (threads of
/// this machine) are an internal error: they are no connections.
std::unique_ptr<TransferTimes> transfer_times(std::shared_ptr<const Links> links);

/// Computing of the workers of one plan, by layers' seconds at each micro-batch's samples, however many a batch has;
/// samples of other shapes (Batch::model) take as long as the model's. The model outlives it, programs live while they
/// are asked about.
class ComputeCosts final : public InstructionTimes {
 public:
  /// `options.batch` is not read.
  ComputeCosts(const Model& model, Cluster cluster, std::shared_ptr<const LayerCosts> layers,
               std::shared_ptr<const Links> links, InstructionCostOptions options);
  double seconds(int rank, const Program& program, const Instruction& instruction, int64_t samples) override;

 private:
  const Model& model_;
  const Cluster cluster_;
  const std::shared_ptr<const LayerCosts> layers_;
  const std::shared_ptr<const Links> links_;
  const InstructionCostOptions options_;
  std::map<std::pair<const Program*, int64_t>, InstructionCosts> costs_;
};

}  // namespace trireme
