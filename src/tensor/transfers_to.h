// A redistribution from the view of one receiver.
#pragma once

#include <vector>

#include "tensor/redistribute.h"

namespace trireme {

/// Returns the transfers of plan_transfers that go to `destination`, which must be in to.mesh. For plans of thousands
/// of workers.
std::vector<TensorTransfer> transfers_to(int destination, const Layout& from, const Layout& to, const Shape& shape);

}  // namespace trireme
