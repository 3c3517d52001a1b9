// [checkpoint] of an experiment: when a run writes checkpoints, and which of them it keeps.
#pragma once

#include <string>

#include "trireme/config.h"

namespace trireme {

struct CheckpointSpec {
  Length every{0, Length::Unit::steps};  ///< a count of 0: no checkpoints
  int64_t keep = 3;                      ///< number of newest checkpoints to keep; 0: all
  /// "loss" or a metric of evaluations: the checkpoint with the best value is kept too. Empty: none.
  std::string best = {};
  /// Folder in which a folder for the run's checkpoints is created. Empty: the run's own folder.
  std::string folder = {};
  /// True: the run ends if a checkpoint cannot be written. False: it continues with the older ones.
  bool ends_on_failure = false;
  std::string where = {};  ///< "mnist.toml:12: checkpoint.every", for messages

  bool wanted() const { return every.count > 0; }
};

/// Errors (user): keys without `every`; a length that is not positive.
CheckpointSpec read_checkpoint_spec(const ConfigTable& table);

}  // namespace trireme
