#include "update/round_sum.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "trireme/error.h"
#include "update/statistics.h"

namespace trireme {
namespace {

using Kind = AggregateOptions::Kind;

constexpr double kRounding = 1e-9;  // 0.1 * 30 is more than 3

at::Tensor median_of(const at::Tensor& sorted) {
  const int64_t n = sorted.size(0);
  return sorted.narrow(0, (n - 1) / 2, n % 2 == 0 ? 2 : 1).mean(0);
}

double squared_distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double sum = 0;
  for (size_t p = 0; p < a.size(); ++p) {
    const at::Tensor difference = a[p] - b[p];
    sum += difference.dot(difference).item<double>();
  }
  return sum;
}

}  // namespace

std::string text_of(Kind kind) {
  constexpr std::array kTexts = {"mean", "equal", "normalized", "median", "trimmed-mean", "krum"};
  return kTexts.at(size_t(kind));
}

bool RoundSum::is_enough() const { return count_ >= (options_.kind == Kind::krum ? 2 * options_.byzantine + 3 : 1); }

double RoundSum::weight_of(const Answer& answer) const {
  return options_.kind == Kind::mean || options_.kind == Kind::normalized ? answer.samples : 1;
}

void RoundSum::add(const Answer& answer) {
  if (count_++ == 0) {
    statistics_ = copies_of(answer.statistics);
    if (!keeps_all())
      for (const at::Tensor& part : answer.update) sums_.push_back(at::zeros_like(part));
  }
  samples_ += answer.samples;
  mix_statistics(statistics_, answer.statistics, answer.samples / samples_);
  if (keeps_all()) {
    std::vector<at::Tensor>& kept = all_.emplace_back();
    for (const at::Tensor& part : answer.update) kept.push_back(part * answer.scale);
    return;
  }
  const double weight = weight_of(answer);
  double factor = weight * answer.scale;
  if (options_.kind == Kind::normalized) {
    factor = answer.progress > 0 ? factor / answer.progress : 0;  // a rate of 0 changes nothing
    progress_ += weight * answer.progress;
  }
  weights_ += weight;
  for (size_t p = 0; p < sums_.size(); ++p) sums_[p].add_(answer.update[p], factor);
}

at::Tensor RoundSum::stacked(size_t part) const {
  std::vector<at::Tensor> rows;
  for (const std::vector<at::Tensor>& answer : all_) rows.push_back(answer[part]);
  return at::stack(rows);
}

/// Krum: returns the answer with the least sum of squared distances to its n - `byzantine` - 2 nearest answers.
size_t RoundSum::nearest_to_others() const {
  const size_t n = all_.size();
  const size_t neighbours = n - size_t(options_.byzantine) - 2;
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> distances;
    for (size_t j = 0; j < n; ++j)
      if (j != i) distances.push_back(squared_distance(all_[i], all_[j]));
    std::sort(distances.begin(), distances.end());
    distances.resize(std::min(distances.size(), neighbours));
    const double score = std::accumulate(distances.begin(), distances.end(), 0.0);
    if (i == 0 || score < least) {
      best = i;
      least = score;
    }
  }
  return best;
}

std::vector<at::Tensor> RoundSum::update() const {
  check_internal(is_enough(), "a round with too few answers has no update");
  std::vector<at::Tensor> result;
  if (!keeps_all()) {
    const double factor = (options_.kind == Kind::normalized ? progress_ / weights_ : 1) / weights_;
    for (const at::Tensor& sum : sums_) result.push_back(sum * factor);
    return result;
  }
  if (options_.kind == Kind::krum) return all_[nearest_to_others()];
  const auto n = int64_t(all_.size());
  const auto left_out = int64_t(std::ceil(options_.trim * double(n) - kRounding));
  for (size_t p = 0; p < all_.front().size(); ++p) {
    const at::Tensor sorted = std::get<0>(stacked(p).sort(0));
    const bool median = options_.kind == Kind::median || 2 * left_out >= n;
    result.push_back(median ? median_of(sorted) : sorted.narrow(0, left_out, n - 2 * left_out).mean(0));
  }
  return result;
}

std::vector<at::Tensor> RoundSum::total() const {
  std::vector<at::Tensor> copies;
  copies.reserve(sums_.size());
  for (const at::Tensor& sum : sums_) copies.push_back(sum.clone());
  return copies;
}

void RoundSum::clear() {
  count_ = 0;
  samples_ = weights_ = progress_ = 0;
  sums_.clear();
  all_.clear();
  statistics_.clear();
}

void RoundSum::fields(StateFields& fields, std::span<const at::Tensor> weights) {
  fields.value("round sum samples", samples_);
  if (options_.kind == Kind::mean) {  // the other values follow from the samples
    count_ = samples_ > 0 ? 1 : 0;
    weights_ = samples_;
  } else {
    fields.value("round sum answers", count_);
    fields.value("round sum weights", weights_);
    fields.value("round sum progress", progress_);
  }
  fields.weights_if_any("round sum", sums_, weights, at::kDouble);
  if (keeps_all()) {
    all_.resize(size_t(count_));
    for (size_t a = 0; a < all_.size(); ++a)
      fields.weights_if_any(fmt::format("answer {}", a), all_[a], weights, at::kDouble);
  }
  fields.statistics("round sum", statistics_);
}

}  // namespace trireme
