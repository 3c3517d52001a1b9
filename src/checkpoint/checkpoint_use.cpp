#include "checkpoint/checkpoint_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "experiment/batches.h"
#include "trireme/error.h"

namespace trireme {

void check_checkpoints(const Experiment& experiment, const TaskData& data) {
  const CheckpointSpec& spec = experiment.checkpoint;
  if (!spec.wanted() || spec.best.empty()) return;
  std::vector<std::string> names = metric_names(data.train->task(), data.train->classes());
  names.insert(names.begin(), "loss");
  if (std::find(names.begin(), names.end(), spec.best) == names.end())
    fail_user({.where = spec.where,
               .what = fmt::format("best = {}", spec.best),
               .why = fmt::format("evaluations of {} do not measure it", name_of(data.train->task())),
               .next = fmt::format("use one of {}", join(names))});
  const int64_t steps_per_epoch = Batches(experiment, data).sampler().steps_per_epoch();
  const int64_t every = steps_of(spec.every, steps_per_epoch),
                evaluate_every = steps_of(experiment.evaluate_every, steps_per_epoch);
  if (every % evaluate_every != 0)
    fail_user({.where = spec.where,
               .what = fmt::format("best = {}", spec.best),
               .why = fmt::format("it is known after evaluations, every {} steps, and checkpoints are written every {}",
                                  evaluate_every, every),
               .next = "make checkpoint.every a multiple of evaluate_every"});
}

}  // namespace trireme
