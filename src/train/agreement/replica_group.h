// Data that the workers of one replica share in a run. A plan without an agreement has one replica.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "comm/local/local_world.h"
#include "experiment/loader.h"
#include "runtime/agreement.h"
#include "runtime/migrate/migrate.h"
#include "train/agreement/group_decision.h"

namespace trireme {

struct ReplicaGroup {
  /// `training` must outlive this object. `make_world` returns the LocalWorld of the replica's workers.
  template <class MakeWorld>
  ReplicaGroup(int n, int first, const Program& training, const MakeWorld& make_world)
      : number(n), first_rank(first), world(make_world()), decision(world.size()), gatherer(training) {}

  const int number;
  const int first_rank;  ///< rank of its first worker, among the run's workers that are threads
  LocalWorld world;
  int64_t next_step = 0;  ///< step of the loader's next batch
  int64_t next_test = 0;  ///< number of the loader's next evaluation batch
  std::unique_ptr<Loader> loader;
  ReplicaAgreement* agreement = nullptr;  ///< set while the replica trains in this process under an agreement
  GroupDecision decision;                 ///< of the leader: to stop (replica_stops.h), to end, to hand over a state
  bool is_done = false;                   ///< leader: the replica makes no more steps
  bool has_ended = false;  ///< leader: an evaluation of all replicas has ended the run, with the values evaluated
  double began = 0;        ///< leader: time of its first step on the hub's clock; times of the run count from it
  int64_t samples = 0;     ///< leader: samples of its steps, including those of an earlier run
  StateGatherer gatherer;  ///< for checkpoints
  std::optional<TrainingState> resumed;  ///< state that its workers resume, under an agreement
};

}  // namespace trireme
