#include "comm/backend_list.h"

namespace trireme {

constinit const BackendKind kVirtualBackend = {
    .name = "virtual",
    .help = ": workers are threads that take turns, in modelled time (docs/virtual.md)",
    .purpose = "threads that take turns, on modelled clocks",
    .modelled_time = true,
};

}  // namespace trireme
