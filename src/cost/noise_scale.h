// The gradient noise scale: how large a batch may be before a larger one stops saving steps in proportion.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/step.h"

namespace trireme {

/// B_simple = tr(Sigma)/|G|^2 of McCandlish et al., "An Empirical Model of Large-Batch Training" (2018), appendix A.1:
/// G is the gradient, Sigma the covariance of one sample's. A mean over b samples has E|g|^2 = |G|^2 + tr(Sigma)/b, so
/// that two sizes, the pieces of a step and its whole batch, tell both. Each is averaged over steps by itself, the
/// older ones with less and less weight, before they are divided. Not thread-safe.
class NoiseScaleEstimator {
 public:
  /// A step weighs `decay` times as much as the one after it; 1: all alike.
  explicit NoiseScaleEstimator(double decay = 0.99) : decay_(decay) {}

  /// `norms`: sums over all workers; ignored where nothing was measured, where they are not finite, or where pieces are
  /// no smaller than the batch.
  void add(const GradientNorms& norms, int64_t batch_samples);

  std::optional<double> gradient_square() const { return weighted(gradient_); }  ///< |G|^2; may come out negative
  std::optional<double> covariance() const { return weighted(covariance_); }     ///< tr(Sigma)
  /// Samples; none before the first step, and where noise hides the gradient (an estimate of |G|^2 that is not
  /// positive).
  std::optional<double> noise_scale() const;

 private:
  std::optional<double> weighted(double sum) const { return weight_ > 0 ? std::optional(sum / weight_) : std::nullopt; }

  double decay_;
  double gradient_ = 0, covariance_ = 0, weight_ = 0;
};

}  // namespace trireme
