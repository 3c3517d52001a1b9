// The Hub of replicas that exchange through Communicators, over any backend, and visit a server through Visits.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "comm/collective_queue.h"
#include "trireme/communicator.h"
#include "update/hub/visits.h"

namespace trireme {

/// The communicators of one replica; their ranks are the replicas. The replica's thread uses all of them except
/// `overlap`.
struct HubEnds {
  std::unique_ptr<Communicator> exchange;
  std::unique_ptr<Communicator> overlap;  ///< for exchanges in the background, on a thread of its own
  std::unique_ptr<Communicator> control;  ///< for totals and unmetered exchanges: no links slow it down
  std::unique_ptr<Visits> visits;         ///< null: there is no server
};

class CommunicatorHub : public Hub {
 public:
  CommunicatorHub(int replica, int replicas) : Hub(replica, replicas) {}

  void enter() override {}
  void leave() override {}
  double total(double number, std::span<const int> members) override;
  std::vector<at::Tensor> gather(const at::Tensor& tensor, std::span<const int> members) override;
  std::unique_ptr<Pending> begin_average(std::vector<at::Tensor> tensors) override;
  std::unique_ptr<Pending> begin_gather(at::Tensor tensor) override;
  std::vector<Reply> visit(std::vector<ShardRequest> requests) override;
  double now() const override { return ends_.control->now() - start_; }
  void begin_step() override { step_began_ = now(); }
  void end_step() override { counts_.compute_seconds += now() - step_began_; }

 protected:
  /// Call it first. `start`: the value of the communicators' now() at the start of the hub's clock.
  void connect(HubEnds ends, double start);
  /// Call it last, on the thread that called connect(). Waits for exchanges in the background.
  void disconnect();
  const HubEnds& ends() const { return ends_; }

  int sum(std::span<at::Tensor> tensors, std::span<const int> members) override;

 private:
  using Groups = std::map<std::vector<int>, std::unique_ptr<Communicator>>;
  using Exchange = std::function<void(Communicator& group, std::vector<at::Tensor>& tensors)>;
  class Overlapped;

  std::unique_ptr<Pending> begin(std::vector<at::Tensor> tensors, Exchange exchange);
  /// Calls `operation` with the group of the members, and counts its time.
  void meet(const std::vector<int>& members, const std::function<void(Communicator& group)>& operation);
  /// Returns the group of `members`, for metered or (of_control) unmetered exchanges.
  Communicator& group_of(const std::vector<int>& members, bool of_control);
  void count(int64_t bytes_sent, int64_t bytes_received);

  HubEnds ends_;
  double start_ = 0, step_began_ = 0;
  Groups exchange_groups_, control_groups_;
  std::unique_ptr<CollectiveQueue> queue_;  ///< over `overlap`; made at the first exchange in the background
};

/// Returns the bytes that leave replica `index` when each tensor is summed over `members` members.
int64_t sum_bytes(std::span<const at::Tensor> tensors, int members, int index);

}  // namespace trireme
