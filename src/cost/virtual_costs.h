// Modelled time (comm/virtual/virtual_time.h) from the cost model: workers that compute use the same seconds as a
// simulation.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "comm/virtual/virtual_time.h"
#include "cost/instruction_costs.h"
#include "runtime/instruction_times.h"

namespace trireme {

/// Transfers over `links`, each of whose pools is a connection. Transfers use a connection one after the other, in the
/// order in which they arrive; a simulation divides it among them. A broadcast is charged as an all_gather of the
/// tensor. Links whose receivers move the bytes (threads of this machine) have no connections and are an internal
/// error.
std::unique_ptr<TransferTimes> transfer_times(std::shared_ptr<const Links> links);

/// Compute times of the workers of one plan: layer seconds at each micro-batch's samples, for any batch size. Samples
/// of other shapes (Batch::model) take as long as the model's. The model must outlive this object; a program must
/// outlive the calls that use it.
class ComputeCosts final : public InstructionTimes {
 public:
  /// `options.batch` is not read.
  ComputeCosts(const Model& model, Cluster cluster, std::shared_ptr<const LayerCosts> layers,
               std::shared_ptr<const Links> links, InstructionCostOptions options);
  double seconds(int rank, const Program& program, const Instruction& instruction, int64_t samples) override;
  double slowdown_beside_sums() const override { return links_->compute_slowdown(); }

 private:
  const Model& model_;
  const Cluster cluster_;
  const std::shared_ptr<const LayerCosts> layers_;
  const std::shared_ptr<const Links> links_;
  const InstructionCostOptions options_;
  std::map<std::pair<const Program*, int64_t>, InstructionCosts> costs_;
};

}  // namespace trireme
