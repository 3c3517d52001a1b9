// What the gloo backend needs from c10d, without its headers.
#pragma once

#include "comm/gloo/gloo.h"
#include "trireme/backend.h"

namespace trireme {

/// Waits for the other ranks and connects to them. Run errors as for gloo_communicator.
Connections connect_ranks(const WorldOptions& options);

}  // namespace trireme
