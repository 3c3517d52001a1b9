#include "cost/epochs_to_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trireme/error.h"

namespace trireme {
namespace {

/// Merges the points of each batch into one.
std::vector<EpochsPoint> merged(const std::vector<EpochsPoint>& points) {
  struct Sum {
    double epochs = 0;
    int count = 0;
    bool reached = true;
  };
  std::map<int64_t, Sum> sums;
  for (const EpochsPoint& p : points) {
    Sum& sum = sums[p.batch];
    sum.epochs += p.epochs.value_or(0);
    sum.reached &= p.epochs.has_value();
    ++sum.count;
  }
  std::vector<EpochsPoint> merged;
  for (const auto& [batch, sum] : sums)
    merged.push_back({batch, sum.reached ? std::optional(sum.epochs / sum.count) : std::nullopt});
  return merged;
}

void check_points(const std::vector<EpochsPoint>& points) {
  if (points.empty())
    fail_user({"epochs to the target", "no batch is listed", "", "measure some: trireme measure-epochs"});
  for (const EpochsPoint& p : points) {
    if (p.batch < 1)
      fail_user({"epochs to the target", fmt::format("batch {}", p.batch), "a batch has at least one sample", ""});
    if (p.epochs && !(std::isfinite(*p.epochs) && *p.epochs > 0))
      fail_user({"epochs to the target", fmt::format("batch {}: {} epochs", p.batch, *p.epochs),
                 "must be a positive number", ""});
  }
}

}  // namespace

std::optional<NoiseFit> fit_noise_model(const std::vector<EpochsPoint>& points) {
  // E = a + b B, with each residual relative to the point's E. With u = 1/E and v = B/E this is least squares of a u +
  // b v = 1.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  int count = 0;
  for (const EpochsPoint& p : points) {
    if (!p.epochs) continue;
    const double u = 1 / *p.epochs, v = double(p.batch) / *p.epochs;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
    ++count;
  }
  const double determinant = uu * vv - uv * uv;
  if (count < 3 || !(determinant > 0)) return std::nullopt;
  const double a = (u1 * vv - v1 * uv) / determinant, b = (v1 * uu - u1 * uv) / determinant;
  if (!(a > 0 && b > 0)) return std::nullopt;
  NoiseFit fit{{.noise_scale = a / b, .least_epochs = a}, 0};
  for (const EpochsPoint& p : points)
    if (p.epochs) fit.worst = std::max(fit.worst, std::abs(fit.model.epochs(double(p.batch)) / *p.epochs - 1));
  return fit;
}

EpochsToTarget EpochsToTarget::table(std::vector<EpochsPoint> points, std::string source) {
  check_points(points);
  EpochsToTarget result;
  result.points_ = merged(points);
  result.source_ = std::move(source);
  return result;
}

EpochsToTarget EpochsToTarget::of(const NoiseModel& model) {
  if (!(std::isfinite(model.noise_scale) && model.noise_scale > 0))
    fail_user({"epochs to the target", fmt::format("a noise scale of {} samples", model.noise_scale),
               "must be a positive number", ""});
  if (!(std::isfinite(model.least_epochs) && model.least_epochs > 0))
    fail_user({"epochs to the target", fmt::format("at least {} epochs", model.least_epochs),
               "must be a positive number", ""});
  EpochsToTarget result;
  result.model_ = model;
  result.source_ = fmt::format("noise scale {:g}", model.noise_scale);
  return result;
}

Epochs EpochsToTarget::at(double batch) const {
  if (model_) return {model_->epochs(batch), source_};
  const auto above =
      std::find_if(points_.begin(), points_.end(), [&](const EpochsPoint& p) { return double(p.batch) >= batch; });
  if (above == points_.end()) return {std::nullopt, fmt::format("no batch beyond {} was tried", points_.back().batch)};
  if (!above->epochs) return {std::nullopt, fmt::format("not reached with batch {}", above->batch)};
  if (double(above->batch) == batch) return {above->epochs, source_};
  if (above == points_.begin()) return {above->epochs, fmt::format("as with batch {}", above->batch)};
  const EpochsPoint& below = *std::prev(above);
  if (!below.epochs) return {std::nullopt, fmt::format("not reached with batch {}", below.batch)};
  const double low = std::log(double(below.batch)), high = std::log(double(above->batch));
  const double share = (std::log(batch) - low) / (high - low);
  return {*below.epochs + share * (*above->epochs - *below.epochs), "interpolated"};
}

}  // namespace trireme
