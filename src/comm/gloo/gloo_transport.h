// What the gloo backend needs of c10d, without its headers.
#pragma once

#include "comm/gloo/gloo.h"
#include "trireme/transport.h"

namespace trireme {

/// Meets the other ranks. Run errors as gloo_communicator.
Connections connect_ranks(const WorldOptions& options);

}  // namespace trireme
