#include "train/batches.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>

namespace trireme {

Batch batch_from(PlannedBatch plan) {
  const auto samples = int64_t(plan.indices.size());
  // shared: a batch is copied to every worker
  auto load = [plan = std::make_shared<const PlannedBatch>(std::move(plan))](Range range) {
    Samples s = plan->set->get(std::span(plan->indices).subspan(size_t(range.begin), size_t(range.size())), plan->draw);
    return std::vector<at::Tensor>{s.data, s.target};
  };
  return {samples, load};
}

BatchSampler training_sampler(const Experiment& experiment, const TaskData& data) {
  const auto order = data.train->is_stream() ? SampleOrder::stream : SampleOrder::shuffled;
  return BatchSampler(data.train->size(), experiment.batch, experiment.seed, false, order);
}

std::vector<std::vector<int64_t>> evaluation_batches(const Experiment& experiment, const TaskData& data) {
  const int64_t n = data.test->size(), rows = std::min(experiment.batch, n);
  std::vector<std::vector<int64_t>> batches;
  if (data.test->is_stream()) {
    const BatchSampler sampler(n, rows, 0, false, SampleOrder::stream);
    for (int64_t k = 0; k < sampler.steps_per_epoch(); ++k) batches.push_back(sampler.batch(0, k));
    return batches;
  }
  for (int64_t first = 0; first < n; first += rows) {
    auto& indices = batches.emplace_back(size_t(std::min(rows, n - first)));
    std::iota(indices.begin(), indices.end(), first);
  }
  return batches;
}

PlannedBatch training_batch(const Experiment& experiment, const TaskData& data, const BatchSampler& sampler, int64_t step) {
  const int64_t epoch = step / sampler.steps_per_epoch();
  return {data.train, sampler.batch(epoch, step % sampler.steps_per_epoch()), {experiment.seed, epoch, experiment.data.augment}};
}

}  // namespace trireme
