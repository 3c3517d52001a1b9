// The [optimizer] table of an experiment. Its keys, by kind, are listed in docs/optimizers.md.
#pragma once

#include "experiment/learning_rate.h"
#include "runtime/optimizer.h"
#include "trireme/config.h"

namespace trireme {

struct OptimizerSettings {
  OptimizerConfig optimizer;
  LearningRateSchedule schedule;
  double clip_norm = 0;  ///< 0: no clipping
};

/// Errors (user): unknown kinds and schedules; keys that the chosen ones do not accept; values out of range.
OptimizerSettings read_optimizer(const ConfigTable& table);

}  // namespace trireme
