// torchgpipe's U-Net, module by module as it cuts it into partitions.
#pragma once

#include <vector>

#include "trireme/model.h"

namespace trireme::validation {

/// `modules[i]`: the node of module i of the sequence that balances count, -1 where it computes nothing (a stash of a
/// skip connection).
struct SequentialModel {
  Model model;
  std::vector<NodeId> modules;
};

/// U-Net(convolutions, channels): five levels, each side of each level with so many convolutions (with dropout,
/// instance norm and leaky ReLU after each), the first level so wide; for images of 3 x `side` x `side`.
SequentialModel torchgpipe_unet(int convolutions, int64_t channels, int64_t side);

/// Stage of each node where partition k takes the next balance[k] modules; what is no module (the loss) is in the last.
std::vector<int> stages_of(const SequentialModel& net, const std::vector<int>& balance);

}  // namespace trireme::validation
