#include "cost/noise_scale.h"

#include <cmath>

namespace trireme {

void NoiseScaleEstimator::add(const GradientNorms& norms, int64_t batch_samples) {
  if (!(norms.pieces > 0) || !std::isfinite(norms.squares) || !std::isfinite(norms.piece_squares)) return;
  const double small = norms.piece_squares / norms.pieces, large = norms.squares;
  const double per_small = norms.inverse_samples / norms.pieces, per_large = 1 / double(batch_samples);
  if (!(per_small > per_large)) return;
  const double covariance = (small - large) / (per_small - per_large);
  gradient_ = decay_ * gradient_ + (large - covariance * per_large);
  covariance_ = decay_ * covariance_ + covariance;
  weight_ = decay_ * weight_ + 1;
}

std::optional<double> NoiseScaleEstimator::noise_scale() const {
  if (!(weight_ > 0) || !(gradient_ > 0) || !(covariance_ > 0)) return std::nullopt;
  return covariance_ / gradient_;
}

}  // namespace trireme
