#include "comm/backend_list.h"

namespace trireme {

constinit const BackendKind kLocalBackend = {
    .name = "local",
    .help = "",
    .purpose = "threads of one process, which read each other's memory",
};

}  // namespace trireme
