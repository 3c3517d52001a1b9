#include "comm/process/world_options.h"

#include "trireme/backend.h"

namespace trireme {

WorldOptions world_options(const JoinOptions& options) {
  const ProcessPlace& place = options.place;
  return {.rank = place.rank,
          .size = place.size,
          .address = place.address,
          .port = place.port,
          .token = options.token,
          .store_is_kept = place.store_is_kept,
          .store_prefix = place.store_prefix,
          .interface = options.interface,
          .device = place.rank,
          .recorder = options.recorder};
}

}  // namespace trireme
