// What the workers of one replica share in a run; a plan without an agreement has one replica.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "comm/local/local_world.h"
#include "experiment/loader.h"
#include "runtime/agreement.h"
#include "runtime/migrate/migrate.h"

namespace trireme {

struct ReplicaGroup {
  /// `training` outlives it. `make_world`: returns the LocalWorld of its workers.
  template <class MakeWorld>
  ReplicaGroup(int n, int first, const Program& training, const MakeWorld& make_world)
      : number(n), first_rank(first), world(make_world()), gatherer(training) {}

  const int number;
  const int first_rank;  ///< of its workers, among those of the run that are threads
  LocalWorld world;
  int64_t next_step = 0;  ///< of the loader's next batch
  int64_t next_test = 0;  ///< likewise, of an evaluation
  std::unique_ptr<Loader> loader;
  ReplicaAgreement* agreement = nullptr;  ///< while the replica trains here under an agreement
  bool comes =
      false;  ///< to a common place (replica_stops.h); written by the leader between two barriers, as the next one
  bool run_ends = false;   ///< at that place
  bool is_done = false;    ///< leader: it makes no more steps
  double began = 0;        ///< leader: its first step, on the hub's clock; times of the run count from there
  int64_t samples = 0;     ///< leader: of its steps, those of an earlier run too
  StateGatherer gatherer;  ///< of checkpoints
  std::optional<TrainingState> resumed;  ///< that its workers go on from, under an agreement
};

}  // namespace trireme
