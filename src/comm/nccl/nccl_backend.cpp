#include "comm/backend_list.h"
#include "comm/nccl/nccl.h"

namespace trireme {

constinit const BackendKind kNcclBackend = {
    .name = "nccl",
    .help = "",
    .purpose = "processes that drive a GPU each",
    .processes = true,
    .available = nccl_available,
};

}  // namespace trireme
