// Replaces c10d_transport.cpp if libtorch has no gloo or its headers are missing.
#include "comm/gloo/gloo_transport.h"
#include "trireme/error.h"

namespace trireme {

bool gloo_available() { return false; }

Connections connect_ranks(const WorldOptions&) {
  fail_run({.where = "backend gloo",
            .what = "this build of trireme has no gloo",
            .why = "libtorch's ProcessGroupGloo or gloo's headers were not found when it was configured",
            .next = "install libgloo-dev and build again, or run the workers as threads of one process"});
}

}  // namespace trireme
