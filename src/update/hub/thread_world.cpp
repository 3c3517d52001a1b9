#include "update/hub/thread_world.h"

#include <thread>
#include <utility>

#include "base/seconds.h"
#include "update/hub/communicator_hub.h"

namespace trireme {
namespace {

/// In the memory of the server's process, over emulated links.
class ThreadVisits final : public Visits {
 public:
  ThreadVisits(int replica, int replicas, ShardHost& host, EmulatedLinks* links) : replica_(replica), server_(replicas), host_(host), links_(links) {}

  Answers visit(std::vector<Hub::ShardRequest> requests, bool metered) override {
    EmulatedLinks* const links = metered ? links_ : nullptr;
    Answers answers{.replies = std::vector<Reply>(requests.size())};
    for (size_t k = 0; k < requests.size(); ++k) {
      const size_t i = shard_in_turn(k, replica_, requests.size());
      const Request& request = requests[i].request;
      if (links) std::this_thread::sleep_until(links->message(replica_, server_, bytes_of(request.tensors)));
      double idle = 0;
      answers.replies[i] = host_.serve(requests[i].shard, replica_, request, idle);
      answers.idle_seconds += idle;
      if (links) std::this_thread::sleep_until(links->message(server_, replica_, bytes_of(answers.replies[i].tensors)));
    }
    return answers;
  }

 private:
  const int replica_, server_;  ///< workers of the links
  ShardHost& host_;
  EmulatedLinks* const links_;  ///< null: none
};

class ThreadHub final : public CommunicatorHub {
 public:
  ThreadHub(int replica, int replicas, HubEnds ends, double start) : CommunicatorHub(replica, replicas) { connect(std::move(ends), start); }
};

}  // namespace

ThreadWorld::ThreadWorld(int replicas, ShardServer* server, std::shared_ptr<EmulatedLinks> links)
    : links_(std::move(links)), exchange_(replicas, links_), overlap_(replicas, links_), control_(replicas) {
  const double start = steady_seconds();
  if (server) host_.emplace(*server, control_, start, [this] { return control_.abort_reason(); });
  for (int r = 0; r < replicas; ++r) {
    HubEnds ends{exchange_.communicator(r), overlap_.communicator(r), control_.communicator(r), nullptr};
    if (host_) ends.visits = std::make_unique<ThreadVisits>(r, replicas, *host_, links_.get());
    hubs_.push_back(std::make_unique<ThreadHub>(r, replicas, std::move(ends), start));
  }
}

ThreadWorld::~ThreadWorld() = default;

Hub& ThreadWorld::hub(int replica) { return *hubs_.at(size_t(replica)); }

void ThreadWorld::abort(const std::string& reason) {
  exchange_.abort(reason);
  overlap_.abort(reason);
  control_.abort(reason);
}

}  // namespace trireme
