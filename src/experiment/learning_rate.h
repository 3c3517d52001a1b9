// Learning rates over a run: schedules, warm-up, and the linear scaling rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config.h"

namespace trireme {

/// step, multistep, cosine and polynomial are PyTorch's StepLR, MultiStepLR, CosineAnnealingLR and PolynomialLR,
/// applied per step. step and multistep count from the start of the run; cosine and polynomial run from the end of the
/// warm-up to the end of the run.
struct LearningRateSchedule {
  enum class Kind { constant, step, multistep, cosine, polynomial };
  Kind kind = Kind::constant;
  Length warmup{0, Length::Unit::steps};  ///< linear from 0 (Goyal et al. 2017)
  int64_t reference_batch = 0;  ///< > 0: rates are for this global batch and scale in proportion (Goyal et al. 2017)
  double decay_factor = 0.1;    ///< step, multistep
  Length decay_every{1, Length::Unit::epochs};  ///< step
  std::vector<Length> decay_at;                 ///< multistep
  double minimum = 0;                           ///< cosine, polynomial: the rate at the end
  double power = 1;                             ///< polynomial
};

std::string name_of(LearningRateSchedule::Kind kind);

/// Reads the keys of an [optimizer] table that describe how its `learning_rate` changes. Errors (user): a key of
/// another schedule; values out of range.
LearningRateSchedule read_schedule(const ConfigTable& table, double learning_rate);

/// Returns the number of steps of a length, at least 1.
int64_t steps_of(const Length& length, int64_t steps_per_epoch);

/// Returns `rate` as scheduled for 0-based `step` of `total`, for a global batch of `batch` samples.
double scheduled_rate(const LearningRateSchedule& schedule, double rate, int64_t batch, int64_t step, int64_t total,
                      int64_t steps_per_epoch);

}  // namespace trireme
