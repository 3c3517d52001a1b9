// What the workers of one replica share in a run; a plan without an agreement has one replica.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/local/local_world.h"
#include "experiment/loader.h"
#include "runtime/agreement.h"

namespace trireme {

struct ReplicaGroup {
  /// `make_world`: returns the LocalWorld of its workers.
  template <class MakeWorld>
  ReplicaGroup(int n, int first, const MakeWorld& make_world) : number(n), first_rank(first), world(make_world()) {}

  const int number;
  const int first_rank;       ///< of its workers, among those of the run that are threads
  LocalWorld world;
  int64_t next_step = 0;      ///< of the loader's next batch
  int64_t next_test = 0;      ///< likewise, of an evaluation
  std::unique_ptr<Loader> loader;
  ReplicaAgreement* agreement = nullptr;  ///< while the replica trains here under an agreement
  double began = 0;           ///< leader: its first step, on the hub's clock; times of the run count from there
  int64_t samples = 0;        ///< leader: of its steps
};

}  // namespace trireme
