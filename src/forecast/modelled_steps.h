// Step times on the modelled clock: each worker's computing, and steps in which all workers average their gradients.
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
#include "trireme/hub.h"
#include "update/failures.h"
#include "update/step_times.h"

namespace trireme {

/// The seconds of a step, varied as [update.virtual] says. Thread-safe.
class ComputeTimes {
 public:
  ComputeTimes(const Experiment& experiment, SecondsBySamples seconds);
  /// Returns the seconds of 0-based step `step` of a replica, or of a worker of synchronous training.
  double seconds(int worker, int64_t step, int64_t samples) const {
    return seconds_(worker, samples) * variation_.seconds(worker, step);
  }

 private:
  const SecondsBySamples seconds_;
  ModelledSteps variation_;
};

/// Step times of replicas that step independently.
class StepsBySamples final : public StepTimes {
 public:
  /// `batches` must outlive this object. `first`: by replica, the run's step that a world counts as 0.
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

/// Step times of one replica whose workers compute on their shares of each batch and then reduce the gradients. A step
/// takes the slowest worker's time plus the time of the collectives, one per bucket of the program, without overlap
/// (comm/formulas.h, rounds as in comm/local/emulated_links.h). All workers wait for a worker that fails, and its step
/// begins again. Thread-safe.
class SynchronousSteps final : public StepTimes {
 public:
  using Samples = std::function<int64_t(int worker, int64_t step)>;

  /// `links`: by worker; the last one also applies to all further workers. `element_size`: bytes of a gradient's
  /// element.
  SynchronousSteps(ComputeTimes times, const Program& program, Samples samples, const std::vector<LinkSpeed>& links,
                   int64_t element_size, const std::vector<Failure>& failures);

  /// A step may be requested again. Errors (run): a worker fails permanently in the step.
  double seconds(int replica, int64_t step) const override;

  /// Returns each worker's counts for the steps requested so far.
  std::vector<HubCounts> counts() const;

 private:
  void make_step(int64_t step) const TRIREME_REQUIRES(mutex_);

  const ComputeTimes times_;
  const Samples samples_;
  const Failures failures_;
  std::vector<int64_t> bytes_;   ///< by worker: bytes sent in a step
  int collectives_ = 0;          ///< number per step
  double exchange_seconds_ = 0;  ///< per step
  mutable Mutex mutex_;
  mutable double now_ TRIREME_GUARDED_BY(mutex_) = 0;                 ///< time at which the next step begins
  mutable std::vector<double> seconds_ TRIREME_GUARDED_BY(mutex_);    ///< by step
  mutable std::vector<HubCounts> counts_ TRIREME_GUARDED_BY(mutex_);  ///< by worker
};

/// Returns the steps of the policy synchronous, whose plan is one replica of all workers. `samples`: of the global
/// batch at a step. `failures`: of workers.
std::unique_ptr<SynchronousSteps> synchronous_steps(const RunSpec& experiment, const Model& model, const Plan& plan,
                                                    const Program& program,
                                                    std::function<int64_t(int64_t step)> samples,
                                                    const std::vector<Failure>& failures);

}  // namespace trireme
