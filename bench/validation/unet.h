// torchgpipe's U-Net in the modules at which torchgpipe cuts it into partitions.
#pragma once

#include <vector>

#include "trireme/model.h"

namespace trireme::validation {

/// `modules[i]`: the node of module i in the sequence that balances count; -1 if it computes nothing (the stash of a
/// skip connection).
struct SequentialModel {
  Model model;
  std::vector<NodeId> modules;
};

/// U-Net(convolutions, channels) for images of 3 x `side` x `side`: five levels. Each side of a level has
/// `convolutions` convolutions, each followed by dropout, instance norm and leaky ReLU; the first level has `channels`
/// channels.
SequentialModel torchgpipe_unet(int convolutions, int64_t channels, int64_t side);

/// Stage of each node: partition k has the next balance[k] modules. Nodes outside modules (the loss) are in the last
/// stage.
std::vector<int> stages_of(const SequentialModel& net, const std::vector<int>& balance);

}  // namespace trireme::validation
