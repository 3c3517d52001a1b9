// Seconds on the modelled clock: of each worker's computing, and of steps in which all workers average their gradients.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/local/emulated_links.h"
#include "experiment/experiment.h"
#include "experiment/replica_batches.h"
#include "forecast/modelled_source.h"
#include "program/program.h"
#include "update/failures.h"
#include "update/hub.h"
#include "update/step_times.h"

namespace trireme {

/// How long a step takes, varied as [update.virtual] says. Thread-safe.
class ComputeTimes {
 public:
  ComputeTimes(const Experiment& experiment, SecondsBySamples seconds);
  /// Of 0-based step `step` of a replica, or of a worker of synchronous training.
  double seconds(int worker, int64_t step, int64_t samples) const {
    return seconds_(worker, samples) * variation_.seconds(worker, step);
  }

 private:
  const SecondsBySamples seconds_;
  ModelledSteps variation_;
};

/// Replicas that step by themselves.
class StepsBySamples final : public StepTimes {
 public:
  /// `batches` outlives it. `first`: by replica, the step of the run that a world counts as 0.
  StepsBySamples(ComputeTimes times, const ReplicaBatches& batches, std::vector<int64_t> first)
      : times_(std::move(times)), batches_(batches), first_(std::move(first)) {}
  double seconds(int replica, int64_t step) const override {
    const int64_t of_run = first_[size_t(replica)] + step;
    return times_.seconds(replica, of_run, batches_.samples_in(replica, of_run));
  }

 private:
  const ComputeTimes times_;
  const ReplicaBatches& batches_;
  const std::vector<int64_t> first_;
};

/// One replica whose workers compute on their shares of each batch and then reduce the gradients: the slowest worker's
/// time, then that of the collectives, one per bucket of the program, which nothing hides (comm/formulas.h, rounds as
/// in comm/local/emulated_links.h). All wait for a worker that fails, and its step begins anew. Thread-safe.
class SynchronousSteps final : public StepTimes {
 public:
  using Samples = std::function<int64_t(int worker, int64_t step)>;

  /// `links`: of each worker; the last one stands for all that follow. `element_size`: bytes of a gradient's element.
  SynchronousSteps(ComputeTimes times, const Program& program, Samples samples, const std::vector<LinkSpeed>& links,
                   int64_t element_size, const std::vector<Failure>& failures);

  /// Steps may be asked for again. Errors (run): a worker that fails for good in it.
  double seconds(int replica, int64_t step) const override;

  /// What each worker's exchanges took in the steps asked for so far.
  std::vector<HubCounts> counts() const;

 private:
  void make_step(int64_t step) const TRIREME_REQUIRES(mutex_);

  const ComputeTimes times_;
  const Samples samples_;
  const Failures failures_;
  std::vector<int64_t> bytes_;   ///< by worker: that leave it in a step
  int collectives_ = 0;          ///< of a step
  double exchange_seconds_ = 0;  ///< of a step
  mutable Mutex mutex_;
  mutable double now_ TRIREME_GUARDED_BY(mutex_) = 0;                 ///< when the next step begins
  mutable std::vector<double> seconds_ TRIREME_GUARDED_BY(mutex_);    ///< by step
  mutable std::vector<HubCounts> counts_ TRIREME_GUARDED_BY(mutex_);  ///< by worker
};

/// Those of the policy synchronous, whose plan is one replica of all workers. `samples`: of the batch of all at a step.
/// `failures`: of workers.
std::unique_ptr<SynchronousSteps> synchronous_steps(const RunSpec& experiment, const Model& model, const Plan& plan,
                                                    const Program& program,
                                                    std::function<int64_t(int64_t step)> samples,
                                                    const std::vector<Failure>& failures);

}  // namespace trireme
