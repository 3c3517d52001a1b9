// The machines on which the processes of a run are, and what connects them.
#pragma once

#include <optional>
#include <vector>

#include "comm/message_buffers.h"
#include "profile/measure_links.h"
#include "trireme/cluster.h"

namespace trireme {

struct ProcessMachines {
  std::vector<int> of_rank;  ///< by rank: number of its machine; machines are in the order of their lowest ranks
  std::vector<int> cores;    ///< by machine: those that its processes may use together, shared cores counted once
  /// Between two processes of a machine, and between two machines, as measured. A bandwidth of 0: there are no such
  /// processes, or nothing was measured.
  Link within = {}, network = {};
  TransferWork work_within = {}, work_between = {};  ///< of their messages; 0: as above
  RedistributionWork redistributions = {};           ///< between all processes; empty: not measured
  std::optional<MessageBuffers> buffers = {};        ///< of the processes' messages
};

}  // namespace trireme
