// Replicas that are ranks of a Communicator, for tests: all in this process, one thread per replica.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/backends.h"
#include "update/hub/rank_world.h"

namespace trireme {

class RankWorlds final : public HubWorld {
 public:
  /// `backend`: local or gloo.
  RankWorlds(test_support::Backend backend, int replicas, ShardServer* server = nullptr)
      : local_(replicas), ends_(size_t(replicas)) {
    at_once([&](size_t r) {
      End& end = ends_[r];
      if (backend == test_support::Backend::local) end.communicator = local_.communicator(int(r));
      else
        end.communicator = gloo_communicator(
            {.rank = int(r), .size = replicas, .store_file = rendezvous_.path(), .timeout_seconds = 30});
      end.world = std::make_unique<RankWorld>(*end.communicator, server);
    });
  }
  ~RankWorlds() override {
    at_once([&](size_t r) {
      ends_[r].world.reset();
      ends_[r].communicator.reset();
    });
  }
  int replicas() const override { return int(ends_.size()); }
  Hub& hub(int replica) override { return ends_.at(size_t(replica)).world->hub(replica); }
  /// An abort of any rank reaches all.
  void abort(const std::string& reason) override { ends_.back().world->abort(reason); }
  HubCounts counts(int replica) override { return ends_.front().world->counts(replica); }

 private:
  struct End {
    std::unique_ptr<Communicator> communicator = {};
    std::unique_ptr<RankWorld> world = {};
  };

  template <class Each>
  void at_once(Each each) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ends_.size(); ++r) threads.emplace_back(each, r);
    for (std::thread& thread : threads) thread.join();
  }

  const test_support::RendezvousFile rendezvous_;
  LocalWorld local_;
  std::vector<End> ends_;
};

}  // namespace trireme
