#include "update/hub/hub_world.h"

#include "base/threads.h"

namespace trireme {

int64_t bytes_of(std::span<const at::Tensor> tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) bytes += int64_t(tensor.nbytes());
  return bytes;
}

void run_replicas(HubWorld& world, const std::function<void(Hub&)>& body) {
  const auto work = [&](int replica) {
    Hub& hub = world.hub(replica);
    hub.enter();
    body(hub);
    hub.leave();
  };
  run_threads(world.replicas(), "replica", work, [&](const std::string& reason) { world.abort(reason); });
}

}  // namespace trireme
