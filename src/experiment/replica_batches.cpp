#include "experiment/replica_batches.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/counted.h"
#include "base/random.h"
#include "data/noisy_set.h"
#include "data/sampler.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kShardsPerReplica = 2;
constexpr int64_t kRead = 4096;  // samples per read

/// Returns the label of every sample.
std::vector<int64_t> labels_of(const Dataset& set, const std::string& where) {
  if (set.task() != LearningTask::classification)
    fail_user({where, "shares by label", fmt::format("targets of {} are not labels", name_of(set.task())),
               "use shares = \"samples\""});
  std::vector<int64_t> labels;
  std::vector<int64_t> indices;
  for (int64_t first = 0; first < set.size(); first += kRead) {
    indices.resize(size_t(std::min(kRead, set.size() - first)));
    std::iota(indices.begin(), indices.end(), first);
    const at::Tensor part = set.get(indices, {}).target.to(at::kLong).contiguous();
    labels.insert(labels.end(), part.data_ptr<int64_t>(), part.data_ptr<int64_t>() + part.numel());
  }
  return labels;
}

/// Cuts `order` into `parts` consecutive parts whose sizes are as equal as possible.
std::vector<std::vector<int64_t>> cut(const std::vector<int64_t>& order, int parts) {
  std::vector<std::vector<int64_t>> cuts;
  for (int p = 0; p < parts; ++p) {
    const Range range = share_of(int64_t(order.size()), parts, p);
    cuts.emplace_back(order.begin() + range.begin, order.begin() + range.end);
  }
  return cuts;
}

/// A draw from Gamma(shape, 1): Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double draw_gamma(double shape, const Philox& random, uint64_t& next) {
  if (shape < 1) {
    const double u = std::max(random.uniform(next++), 1e-300);
    return draw_gamma(shape + 1, random, next) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal(next++), v = std::pow(1 + c * x, 3), u = random.uniform(next++);
    if (v > 0 && std::log(std::max(u, 1e-300)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

std::vector<std::vector<int64_t>> by_dirichlet(const std::vector<int64_t>& order, const std::vector<int64_t>& labels,
                                               double alpha, int replicas, uint64_t seed) {
  std::vector<std::vector<int64_t>> shares(static_cast<size_t>(replicas));
  std::map<int64_t, std::vector<int64_t>> of_label;
  for (int64_t sample : order) of_label[labels[size_t(sample)]].push_back(sample);
  for (const auto& [label, samples] : of_label) {
    const Philox random(random_key(seed, fmt::format("shares of label {}", label)));
    uint64_t next = 0;
    std::vector<double> weights;
    for (int r = 0; r < replicas; ++r) weights.push_back(std::max(draw_gamma(alpha, random, next), 1e-12));
    for (int r = 0; r < replicas; ++r) {
      const Range range = share_of(int64_t(samples.size()), weights, r);
      shares[size_t(r)].insert(shares[size_t(r)].end(), samples.begin() + range.begin, samples.begin() + range.end);
    }
  }
  return shares;
}

}  // namespace

std::vector<std::vector<int64_t>> divide_samples(const Dataset& set, const ReplicaSpec& spec, int replicas,
                                                 uint64_t seed) {
  if (set.size() < replicas)
    fail_user({spec.where, counted(replicas, "replica"), "the training set has " + counted(set.size(), "sample"),
               "use fewer replicas"});
  std::vector<int64_t> order = sample_order(set.size(), random_key(seed, "shares"), 0);
  std::vector<std::vector<int64_t>> shares;
  if (spec.shares == SampleShares::labels) {
    const std::vector<int64_t> labels = labels_of(set, spec.where);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return labels[size_t(a)] < labels[size_t(b)]; });
    const auto shards = cut(order, kShardsPerReplica * replicas);
    const std::vector<int64_t> deal = sample_order(int64_t(shards.size()), random_key(seed, "shards"), 0);
    shares.resize(size_t(replicas));
    for (size_t s = 0; s < deal.size(); ++s) {
      std::vector<int64_t>& share = shares[s / kShardsPerReplica];
      share.insert(share.end(), shards[size_t(deal[s])].begin(), shards[size_t(deal[s])].end());
    }
  } else if (spec.shares == SampleShares::dirichlet) {
    shares = by_dirichlet(order, labels_of(set, spec.where), spec.alpha, replicas, seed);
  } else if (spec.shares == SampleShares::quantity) {
    shares = by_dirichlet(order, std::vector<int64_t>(order.size(), 0), spec.alpha, replicas, seed);  // one label
  } else {
    shares = cut(order, replicas);
  }
  for (size_t r = 0; r < shares.size(); ++r) {
    if (shares[r].empty())
      fail_user({spec.where, fmt::format("alpha = {:g}", spec.alpha),
                 fmt::format("replica {} of {} would have no samples", r, replicas),
                 "use a larger alpha, fewer replicas or another seed"});
    std::sort(shares[r].begin(), shares[r].end());
  }
  return shares;
}

ReplicaBatches::ReplicaBatches(const RunSpec& experiment, const TaskData& data, int replicas, bool equal_steps)
    : experiment_(experiment), data_(data), replicas_(replicas), whole_(experiment, data), train_(data.train) {
  const ReplicaSpec& spec = experiment.replicas;
  if (experiment.batch < replicas)
    fail_user({spec.where, counted(replicas, "replica"),
               fmt::format("a batch of {} does not have a sample for each", experiment.batch),
               "use a larger batch or fewer replicas"});
  batch_ = experiment.batch / replicas;
  if (experiment.own_data) {
    check_can_be_divided("data of each client's own");
    if (spec.shares == SampleShares::features)
      fail_user({spec.where, "shares = \"features\"", "clients with data of their own get no noise",
                 "leave it out, or leave out --own-data"});
    own_.emplace_back(size_t(data.train->size()));
    std::iota(own_.front().begin(), own_.front().end(), 0);
    kept_.resize(size_t(replicas));
    return;
  }
  const BatchSampler& sampler = whole_.sampler();
  whole_steps_ = sampler.steps_per_epoch();
  if (sampler.batch_size_at(whole_steps_ - 1) < replicas) --whole_steps_;
  if (whole_steps_ == 0)
    fail_user({spec.where, counted(replicas, "replica"),
               fmt::format("there are {} training samples", data.train->size()), "use fewer replicas"});
  if (spec.shares == SampleShares::batches) return;
  check_can_be_divided(fmt::format("shares = \"{}\"", name_of(spec.shares)));
  own_ = divide_samples(*data.train, spec, replicas, experiment.seed);
  if (spec.shares == SampleShares::features) add_noise();
  kept_.resize(own_.size());
  if (!equal_steps) return;
  size_t most = 0;
  for (const std::vector<int64_t>& own : own_) most = std::max(most, own.size());
  equal_steps_ = (int64_t(most) + batch_ - 1) / batch_;
}

/// Replica r of n, counted from 0, has noise of the variance feature_noise (r + 1) / n: the last one has all of it.
void ReplicaBatches::add_noise() {
  const ReplicaSpec& spec = experiment_.replicas;
  std::vector<double> deviations(static_cast<size_t>(data_.train->size()));
  for (int r = 0; r < replicas_; ++r) {
    const double deviation = std::sqrt(spec.feature_noise * (r + 1) / replicas_);
    for (const int64_t sample : own_[size_t(r)]) deviations[size_t(sample)] = deviation;
    const uint64_t key = random_key(experiment_.seed, fmt::format("features of replica {}, test", r));
    tests_.push_back(std::make_shared<NoisySet>(data_.test, std::vector<double>{deviation}, key, spec.where));
  }
  train_ = std::make_shared<NoisySet>(data_.train, std::move(deviations),
                                      random_key(experiment_.seed, "features of the training samples"), spec.where);
}

PlannedBatch ReplicaBatches::evaluation(int replica, int64_t k) const {
  PlannedBatch planned = whole_.evaluation(k);
  if (!tests_.empty()) planned.set = tests_[size_t(replica)];
  return planned;
}

void ReplicaBatches::check_can_be_divided(const std::string& how) const {
  if (data_.train->is_stream() || experiment_.pad_to_multiple_of > 0)
    fail_user({experiment_.replicas.where, how,
               "streams, and sentences padded by batch, can only be shared batch by batch",
               "use shares = \"batches\", without --own-data"});
}

int64_t ReplicaBatches::steps_per_epoch(int replica) const {
  if (by_batch()) return whole_steps_;
  if (equal_steps_ > 0) return equal_steps_;
  const auto samples = int64_t(own(replica).size());
  return (samples + batch_ - 1) / batch_;
}

int64_t ReplicaBatches::samples_per_epoch() const {
  if (equal_steps_ > 0) return equal_steps_ * batch_ * replicas_;
  if (!by_batch()) return data_.train->size();
  int64_t sum = 0;
  for (int64_t k = 0; k < whole_steps_; ++k) sum += whole_.sampler().batch_size_at(k);
  return sum;
}

int64_t ReplicaBatches::left_out_of_epoch() const {
  return by_batch() ? whole_.sampler().samples_per_epoch() - samples_per_epoch() : 0;
}

int64_t ReplicaBatches::whole_step(int64_t step) const {
  return step / whole_steps_ * whole_.sampler().steps_per_epoch() + step % whole_steps_;
}

int64_t ReplicaBatches::samples_in(int replica, int64_t step) const {
  if (equal_steps_ > 0) return batch_;
  const int64_t k = step % steps_per_epoch(replica);
  if (by_batch()) return share_of(whole_.sampler().batch_size_at(k), replicas_, replica).size();
  return std::min(batch_, int64_t(own(replica).size()) - k * batch_);
}

int64_t ReplicaBatches::samples_together(int64_t step) const {
  return by_batch() ? whole_.sampler().batch_size_at(step % whole_steps_) : batch_ * replicas_;
}

bool ReplicaBatches::starts_stream(int64_t step) const {
  return by_batch() && whole_.sampler().starts_anew(step % whole_steps_);
}

/// Returns the samples of one replica in the order of an epoch.
std::shared_ptr<const std::vector<int64_t>> ReplicaBatches::order_of(int replica, int64_t epoch) const {
  MutexLock lock(mutex_);
  Kept& kept = kept_[size_t(replica)];
  if (kept.epoch == epoch) return kept.order;
  const std::vector<int64_t>& mine = own(replica);
  std::vector<int64_t> order =
      sample_order(int64_t(mine.size()), random_key(experiment_.seed, fmt::format("replica {}", replica)), epoch);
  for (int64_t& sample : order) sample = mine[size_t(sample)];
  kept = {epoch, std::make_shared<const std::vector<int64_t>>(std::move(order))};
  return kept.order;
}

PlannedBatch ReplicaBatches::training(int replica, int64_t step) const {
  if (by_batch()) {
    PlannedBatch planned = whole_.training(whole_step(step));
    const Range range = share_of(int64_t(planned.indices.size()), replicas_, replica);
    planned.indices = {planned.indices.begin() + range.begin, planned.indices.begin() + range.end};
    return planned;
  }
  // with equal steps, a replica continues from one order of its samples to the next within a batch
  const auto size = int64_t(own(replica).size());
  const int64_t first = equal_steps_ > 0
                            ? step * batch_
                            : step / steps_per_epoch(replica) * size + step % steps_per_epoch(replica) * batch_;
  PlannedBatch planned{train_, {}, {experiment_.seed, first / size, experiment_.data.augment}};
  for (int64_t i = first, end = first + samples_in(replica, step); i < end;) {
    const auto order = order_of(replica, i / size);
    const int64_t count = std::min(end - i, size - i % size);
    planned.indices.insert(planned.indices.end(), order->begin() + i % size, order->begin() + i % size + count);
    i += count;
  }
  return planned;
}

PlannedBatch ReplicaBatches::together(int64_t step) const {
  if (by_batch()) return whole_.training(whole_step(step));
  PlannedBatch all = training(0, step);
  for (int r = 1; r < replicas_; ++r) {
    const PlannedBatch part = training(r, step);
    all.indices.insert(all.indices.end(), part.indices.begin(), part.indices.end());
  }
  return all;
}

}  // namespace trireme
