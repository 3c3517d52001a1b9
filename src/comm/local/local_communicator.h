// One rank's end of a local group.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/group_member.h"
#include "comm/local/local_group.h"
#include "comm/local/local_state.h"

namespace trireme {

class LocalCommunicator final : public GroupMember {
 public:
  LocalCommunicator(std::shared_ptr<LocalState> world, std::shared_ptr<LocalGroup> group, int rank,
                    std::shared_ptr<Tally> parent);
  ~LocalCommunicator() override;

  int size() const override { return group_->size(); }
  void all_reduce(at::Tensor& tensor, ReduceOp op) override;
  void all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op) override;
  void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) override;
  void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) override;
  void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) override;
  void broadcast(at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to, int64_t tag) override;
  at::Tensor receive(int from, int64_t tag) override;
  at::Tensor receive_shared(int from, int64_t tag) override;
  void barrier() override;
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override;
  VirtualTime* virtual_time() const override { return world_->virtual_time(); }
  double now() const override { return world_->now(); }
  bool moves_beside_computing() const override { return world_->moves_beside_computing() && size() > 1; }
  void abort(const std::string& reason) override { world_->abort(reason); }
  std::string abort_reason() const override { return world_->aborted() ? world_->abort_reason() : ""; }

 private:
  /// Fills in this rank's call with `publish`, waits for the other ranks' calls and does the work. A failure aborts the
  /// world.
  void run_collective(const std::function<void(LocalCall&)>& publish, int64_t bytes, int64_t steps);
  double run_call();

  const std::shared_ptr<LocalState> world_;
  const std::shared_ptr<LocalGroup> group_;
  const bool is_of_all_;  // true for the world's communicator, false for a group
  int64_t calls_ = 0;     // collectives begun
};

}  // namespace trireme
