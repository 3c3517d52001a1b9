// Places the operators of a model on devices. Any layer may be on any device; transfers overlap with computing.
//
// The problem is that of DLPlacer: Pal et al., "Optimizing Multi-GPU Parallelization Strategies for Deep Learning
// Training", IEEE Micro 2019, who solve it as an integer program. Here the model is cut at each value that is the only
// one that later layers read. Everything before the cut is computed before everything after it, so each part between
// two cuts is a separate problem. A small part is solved by trying every placement. A large part is solved by local
// search from several starting points.
#pragma once

#include <vector>

namespace trireme {

/// A step of one replica with one micro-batch: all forwards, then all backwards. Each device computes its items in
/// their order, in backward in the reverse order. A value is sent once to each device that needs it, as soon as it has
/// been computed. Each of these devices sends its part of the gradient back when the part is complete. A device sends
/// one value at a time, receives one at a time, and computes meanwhile.
struct OperatorProblem {
  struct Item {
    double forward = 0, backward = 0;  ///< seconds
    double bytes = 0;                  ///< of its output, and of the output's gradient
    std::vector<int> inputs = {};      ///< earlier items, each once
  };
  int devices = 2;
  std::vector<Item> items;  ///< the last one is the loss
  double bandwidth = 0;     ///< bytes/s between any two devices; 0: no limit
  double latency = 0;       ///< seconds of a transfer
};

struct OperatorPlacement {
  std::vector<int> device_of;  ///< by item
  double seconds = 0;          ///< of a step under this placement
  double bound = 0;            ///< no placement takes less
};

/// Returns the seconds of a step. `device_of`: by item.
double seconds_of(const OperatorProblem& problem, const std::vector<int>& device_of);

/// Searches for the placement that takes the least time. Deterministic. Optimal where every part between two cuts has
/// at most 13 items on two devices (8 on three, 6 on four); otherwise good, and `bound` says how far from optimal it
/// can be.
OperatorPlacement find_placement(const OperatorProblem& problem);

}  // namespace trireme
