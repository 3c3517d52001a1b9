// The gradient noise scale: the batch size above which a larger batch no longer saves steps in proportion.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/step.h"

namespace trireme {

/// Estimates B_simple = tr(Sigma)/|G|^2 of McCandlish et al., "An Empirical Model of Large-Batch Training" (2018),
/// appendix A.1. G is the gradient, Sigma the covariance of one sample's gradient. A mean over b samples has E|g|^2 =
/// |G|^2 + tr(Sigma)/b. Two sizes, the pieces of a step and its whole batch, therefore determine both. Each of the two
/// is averaged over the steps with exponentially decreasing weight, and only then are they divided. Not thread-safe.
class NoiseScaleEstimator {
 public:
  /// The weight of a step is `decay` times that of the next one; 1: equal weights.
  explicit NoiseScaleEstimator(double decay = 0.99) : decay_(decay) {}

  /// `norms`: sums over all workers. Ignored if nothing was measured, if the norms are not finite, or if the pieces are
  /// not smaller than the batch.
  void add(const GradientNorms& norms, int64_t batch_samples);

  std::optional<double> gradient_square() const { return weighted(gradient_); }  ///< |G|^2; may be negative
  std::optional<double> covariance() const { return weighted(covariance_); }     ///< tr(Sigma)
  /// In samples. Empty before the first step, and while the noise hides the gradient (the estimate of |G|^2 is not
  /// positive).
  std::optional<double> noise_scale() const;

 private:
  std::optional<double> weighted(double sum) const { return weight_ > 0 ? std::optional(sum / weight_) : std::nullopt; }

  double decay_;
  double gradient_ = 0, covariance_ = 0, weight_ = 0;
};

}  // namespace trireme
