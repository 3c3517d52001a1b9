#include "forecast/modelled_steps.h"

#include <algorithm>
#include <utility>

#include "comm/formulas.h"
#include "forecast/agreement_plan.h"
#include "plan/named.h"
#include "runtime/precision.h"

namespace trireme {

ComputeTimes::ComputeTimes(const Experiment& experiment, SecondsBySamples seconds) : seconds_(std::move(seconds)) {
  const ModelledClock& clock = *experiment.replicas.clock;
  variation_.base_seconds = {1};
  variation_.jitter = clock.jitter;
  variation_.straggle_probability = clock.straggle_probability;
  variation_.straggle_factor = clock.straggle_factor;
  variation_.seed = experiment.seed;
}

SynchronousSteps::SynchronousSteps(ComputeTimes times, const Program& program, Samples samples,
                                   const std::vector<LinkSpeed>& links, int64_t element_size,
                                   const std::vector<Failure>& failures)
    : times_(std::move(times)),
      samples_(std::move(samples)),
      failures_(failures),
      bytes_(size_t(program.devices)),
      counts_(size_t(program.devices)) {
  const int n = program.devices;
  for (const Bucket& bucket : program.buckets) {
    if (bucket.contributors.empty()) continue;  // frozen parameters
    ++collectives_;
    for (int w = 0; w < n; ++w) bytes_[size_t(w)] += all_reduce_bytes(bucket.elements, element_size, n, w);
  }
  double transfer = 0, latency = 0;
  for (int w = 0; w < n; ++w) {
    const LinkSpeed& link = links[std::min(size_t(w), links.size() - 1)];
    if (link.bandwidth > 0) transfer = std::max(transfer, double(bytes_[size_t(w)]) / link.bandwidth);
    latency = std::max(latency, link.latency);
  }
  exchange_seconds_ = transfer + rounds_of(Collective::all_reduce, n) * collectives_ * latency;
}

double SynchronousSteps::seconds(int, int64_t step) const {
  MutexLock lock(mutex_);
  while (int64_t(seconds_.size()) <= step) make_step(int64_t(seconds_.size()));
  return seconds_[size_t(step)];
}

void SynchronousSteps::make_step(int64_t step) const {
  const int n = int(counts_.size());
  std::vector<double> computing, end;
  for (int w = 0; w < n; ++w) {
    computing.push_back(times_.seconds(w, step, samples_(w, step)));
    const Failures::Work work = failures_.work(w, now_, computing.back());
    if (work.is_lost) fail_lost("worker", w, work.failed_at);
    end.push_back(work.end);
  }
  const double last = *std::max_element(end.begin(), end.end());
  for (int w = 0; w < n; ++w) {
    HubCounts& counts = counts_[size_t(w)];
    counts.compute_seconds += computing[size_t(w)];
    counts.idle_seconds += last - end[size_t(w)];
    counts.exchange_seconds += exchange_seconds_;
    counts.bytes_sent += bytes_[size_t(w)];
    counts.bytes_received += bytes_[size_t((w + n - 1) % n)];
    counts.collectives += n > 1 ? collectives_ : 0;
  }
  seconds_.push_back(last + exchange_seconds_ - now_);
  now_ = last + exchange_seconds_;
}

std::vector<HubCounts> SynchronousSteps::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

std::unique_ptr<SynchronousSteps> synchronous_steps(const RunSpec& experiment, const Model& model, const Plan& plan,
                                                    const Program& program,
                                                    std::function<int64_t(int64_t step)> samples,
                                                    const std::vector<Failure>& failures) {
  const int workers = plan.devices;
  const Plan single = single_plan(model, std::max<int64_t>(1, experiment.batch / workers));
  const auto of_worker = [plan, samples = std::move(samples)](int worker, int64_t step) {
    return share_of_worker(plan, samples(step), worker);
  };
  return std::make_unique<SynchronousSteps>(
      ComputeTimes(experiment, seconds_by_samples(experiment, model, single, workers)), program, of_worker,
      modelled_links(experiment, workers, 1).replicas, int64_t(c10::elementSize(master_type(experiment.precision))),
      failures);
}

}  // namespace trireme
