// A redistribution as one of its receivers sees it.
#pragma once

#include <vector>

#include "tensor/redistribute.h"

namespace trireme {

/// Those of plan_transfers that go to `destination`, which is in to.mesh; for plans of thousands of workers.
std::vector<TensorTransfer> transfers_to(int destination, const Layout& from, const Layout& to, const Shape& shape);

}  // namespace trireme
