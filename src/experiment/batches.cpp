#include "experiment/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/counted.h"
#include "program/compile.h"
#include "program/shapes.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::shared_ptr<const PaddedSet> padded(const std::shared_ptr<const Dataset>& set) {
  auto padded = std::dynamic_pointer_cast<const PaddedSet>(set);
  check_internal(padded != nullptr, "only padded samples are padded to a multiple");
  return padded;
}

BatchSampler make_sampler(const Experiment& experiment, const std::shared_ptr<const Dataset>& train) {
  const auto sampler = [&](SampleOrder order, std::vector<int32_t> lengths) {
    return BatchSampler(train->size(), experiment.batch, experiment.seed, false, order, std::move(lengths));
  };
  if (experiment.pad_to_multiple_of > 0) return sampler(SampleOrder::bucketed, padded(train)->lengths());
  return sampler(train->is_stream() ? SampleOrder::stream : SampleOrder::shuffled, {});
}

std::vector<std::vector<int64_t>> evaluation_batches(const Experiment& experiment,
                                                     const std::shared_ptr<const Dataset>& test) {
  const int64_t n = test->size(), rows = std::min(experiment.batch, n);
  std::vector<std::vector<int64_t>> batches;
  if (test->is_stream()) {
    const BatchSampler sampler(n, rows, 0, false, SampleOrder::stream);
    for (int64_t k = 0; k < sampler.steps_per_epoch(); ++k) batches.push_back(sampler.batch(0, k));
    return batches;
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (experiment.pad_to_multiple_of > 0) {
    const std::vector<int32_t> lengths = padded(test)->lengths();
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return lengths[size_t(a)] < lengths[size_t(b)]; });
  }
  for (int64_t first = 0; first < n; first += rows)
    batches.emplace_back(order.begin() + first, order.begin() + std::min(first + rows, n));
  return batches;
}

}  // namespace

Batch batch_from(PlannedBatch plan) {
  const auto samples = int64_t(plan.indices.size());
  std::shared_ptr<const Model> model = plan.model;
  // shared, because a batch is copied to every worker
  auto load = [plan = std::make_shared<const PlannedBatch>(std::move(plan))](Range range) {
    Samples s = plan->set->get(std::span(plan->indices).subspan(size_t(range.begin), size_t(range.size())), plan->draw);
    return std::vector<at::Tensor>{s.data, s.target};
  };
  return {samples, load, std::move(model)};
}

Batches::Batches(const Experiment& experiment, const TaskData& data)
    : experiment_(experiment),
      data_(data),
      sampler_(make_sampler(experiment, data.train)),
      test_(evaluation_batches(experiment, data.test)) {}

PlannedBatch Batches::training(int64_t step) const {
  const int64_t epoch = step / sampler_.steps_per_epoch();
  return in_shape(data_.train, sampler_.batch(epoch, step % sampler_.steps_per_epoch()),
                  {experiment_.seed, epoch, experiment_.data.augment});
}

PlannedBatch Batches::evaluation(int64_t k) const { return in_shape(data_.test, test_.at(size_t(k)), {}); }

bool Batches::evaluation_starts_anew(int64_t k) const {
  return k == 0 || !data_.test->is_stream() || test_.at(size_t(k)).size() != test_[size_t(k) - 1].size();
}

int64_t Batches::test_samples() const {
  int64_t sum = 0;
  for (const auto& indices : test_) sum += int64_t(indices.size());
  return sum;
}

PlannedBatch Batches::in_shape(const std::shared_ptr<const Dataset>& set, std::vector<int64_t> indices,
                               const Draw& draw) const {
  if (experiment_.pad_to_multiple_of == 0) return {set, std::move(indices), draw};
  const auto whole = padded(set);
  const PartLengths parts = parts_for(*whole, indices, experiment_.pad_to_multiple_of);
  if (parts == whole->padded_parts()) return {set, std::move(indices), draw};
  const auto less = std::make_shared<const RepaddedSet>(whole, parts);
  return {less, std::move(indices), draw, model_for(*less, parts)};
}

/// Returns the model for a shape. Training and test samples are padded in the same way, so one model serves both.
std::shared_ptr<const Model> Batches::model_for(const RepaddedSet& set, const PartLengths& parts) const {
  MutexLock lock(mutex_);
  std::shared_ptr<const Model>& model = models_[parts];
  if (!model) model = std::make_shared<const Model>(build_model(experiment_, set));
  return model;
}

void check_batch(const RunSpec& experiment, const TaskData& data) {
  const int64_t samples = data.train->size();
  if (experiment.own_data || experiment.batch <= samples) return;
  const bool per_device = experiment.batch_per_device > 0;
  const int64_t most = per_device ? samples / std::max(1, experiment.batch_devices) : samples;
  fail_user({experiment.where("batch"), per_device ? batch_in_words(experiment) : std::to_string(experiment.batch),
             "the training set has " + counted(samples, "sample"),
             fmt::format("use at most {}{}", most, per_device ? " per device" : "")});
}

void check_shapes(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan) {
  const int64_t multiple = experiment.pad_to_multiple_of;
  if (multiple == 0) return;
  const auto train = padded(data.train);
  const PartLengths all = train->padded_parts(), least{std::min(multiple, all.first), std::min(multiple, all.second)};
  check_internal(all == padded(data.test)->padded_parts(), "training and test samples are padded alike");
  if (least == all) return;
  // other lengths are multiples of the shortest: a degree that divides it divides them
  check_runs(compile(model, plan, compile_options(experiment, true)), model,
             build_model(experiment, RepaddedSet(train, least)),
             fmt::format("{}: {}", experiment.where("data.pad_to_multiple_of"), multiple));
}

}  // namespace trireme
