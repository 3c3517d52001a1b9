#include "cost/virtual_costs.h"

#include "trireme/error.h"

namespace trireme {
namespace {

RedistributionKind kind_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return RedistributionKind::all_reduce;
    case Collective::reduce_scatter: return RedistributionKind::reduce_scatter;
    case Collective::all_to_all: return RedistributionKind::all_to_all;
    case Collective::all_gather:
    case Collective::broadcast: return RedistributionKind::all_gather;
    case Collective::barrier: break;
  }
  return RedistributionKind::none;
}

class OverLinks final : public TransferTimes {
 public:
  explicit OverLinks(std::shared_ptr<const Links> links) : links_(std::move(links)) {
    check_internal(!links_->receiver_moves(), "modelled time uses links that move bytes without a worker");
  }
  int connections() const override { return int(links_->pools().size()); }
  ModelledTransfer message(int from, int to, int64_t bytes) override {
    return transfer(links_->message(from, to, double(bytes)));
  }
  ModelledTransfer collective(Collective collective, std::span<const int> ranks, int64_t bytes) override {
    return transfer(links_->collective(kind_of(collective), double(bytes), ranks));
  }

 private:
  ModelledTransfer transfer(const Demand& demand) const {
    ModelledTransfer transfer{demand.fixed, {}};
    for (const Share& share : demand.shares) {  // a node's shared link may be listed once per rank
      const Pool& pool = links_->pools()[size_t(share.pool)];
      if (pool.kind == Pool::Kind::link) transfer.busy.emplace_back(share.pool, share.amount / pool.capacity);
    }
    return transfer;
  }

  const std::shared_ptr<const Links> links_;
};

}  // namespace

std::unique_ptr<TransferTimes> transfer_times(std::shared_ptr<const Links> links) {
  return std::make_unique<OverLinks>(std::move(links));
}

ComputeCosts::ComputeCosts(const Model& model, Cluster cluster, std::shared_ptr<const LayerCosts> layers,
                           std::shared_ptr<const Links> links, InstructionCostOptions options)
    : model_(model),
      cluster_(std::move(cluster)),
      layers_(std::move(layers)),
      links_(std::move(links)),
      options_(std::move(options)) {}

double ComputeCosts::seconds(int rank, const Program& program, const Instruction& instruction, int64_t samples) {
  auto known = costs_.find({&program, samples});
  if (known == costs_.end()) {
    InstructionCostOptions options = options_;
    options.batch = samples;
    known = costs_.try_emplace({&program, samples}, program, model_, cluster_, *layers_, *links_, options).first;
  }
  return known->second.of(rank, instruction).computing;
}

}  // namespace trireme
