#include "update/hub/thread_world.h"

#include <utility>

#include "base/seconds.h"
#include "update/hub/communicator_hub.h"

namespace trireme {
namespace {

class ThreadHub final : public CommunicatorHub {
 public:
  ThreadHub(int replica, int replicas, HubEnds ends, double start) : CommunicatorHub(replica, replicas) {
    connect(std::move(ends), start);
  }
};

}  // namespace

ThreadWorld::ThreadWorld(int replicas, ShardServer* server, std::shared_ptr<EmulatedLinks> links)
    : links_(std::move(links)), exchange_(replicas, links_), overlap_(replicas, links_), control_(replicas) {
  const double start = steady_seconds();
  if (server) host_.emplace(*server, control_, start, [this] { return control_.abort_reason(); });
  for (int r = 0; r < replicas; ++r) {
    HubEnds ends{exchange_.communicator(r), overlap_.communicator(r), control_.communicator(r), nullptr};
    if (host_) ends.visits = visits_in_memory(r, *host_, links_.get(), /*server=*/replicas);
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
