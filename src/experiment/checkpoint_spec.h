// [checkpoint] of an experiment: when a run writes checkpoints, and which of them it keeps.
#pragma once

#include <string>

#include "trireme/config.h"
#include "trireme/units.h"

namespace trireme {

struct CheckpointSpec {
  Length every{0, Length::Unit::steps};  ///< a count of 0: no checkpoints
  int64_t keep = 3;                      ///< the newest ones; 0: all
  std::string best = {};    ///< "loss" or a metric of evaluations, whose best checkpoint is kept too; empty: none is
  std::string folder = {};  ///< in which a folder for the run's checkpoints is made; empty: the run's own
  bool ends_on_failure = false;  ///< of writing: else the run goes on, with the older ones
  std::string where = {};        ///< "mnist.toml:12: checkpoint.every", for messages

  bool wanted() const { return every.count > 0; }
};

/// Errors (user): keys without `every`, a length that is not positive.
CheckpointSpec read_checkpoint_spec(const ConfigTable& table);

}  // namespace trireme
