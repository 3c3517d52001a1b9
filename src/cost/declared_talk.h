// What a layer's call says to the other workers of its groups while it computes, known from what each kind of layer does: nothing is run.
// Tested against what the calls really say (tests/cost/declared_talk_test.cpp). Redistributions between layers are the program's.
#pragma once

#include <string_view>
#include <vector>

#include "cost/call_shapes.h"
#include "tensor/redistribute.h"

namespace trireme {

/// One exchange among the workers of a group, or the same one several times, one after the other.
struct Talk {
  RedistributionKind kind = RedistributionKind::none;
  double bytes = 0;        ///< as of Links::collective; send_receive: over the border between two neighbours, both ways together
  double times = 1;
  bool over_data = false;  ///< among the data group; else the tensor group
};

/// In the order of a call. A backward that is split talks in its first part.
struct LayerTalk {
  std::vector<Talk> forward, backward;
};

/// `together`: members of the data group over which it takes its statistics (global batch norm); 1: its own samples only. Errors
/// (internal): an option that talks, of a kind that is not declared here.
LayerTalk declared_talk(const CallShapes& call, int together = 1);

/// Whether it knows the kind.
bool declares_talk(std::string_view kind);

}  // namespace trireme
