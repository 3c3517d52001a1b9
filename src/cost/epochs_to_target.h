// E(B): the epochs that training needs to reach its target with a global batch of B samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// One training run with one batch size.
struct EpochsPoint {
  int64_t batch = 0;
  std::optional<double> epochs;  ///< empty: the target was not reached
};

/// E at one batch. There is no value if E is not known; then the basis says why. E is never guessed.
struct Epochs {
  std::optional<double> value;
  std::string basis;  ///< "measured", "interpolated", "as with batch 32", "not reached with batch 512", "no batch
                      ///< beyond 1024 was tried"
};

/// The noise-scale model of E(B), from an estimate of the noise scale or a fit to measured points (McCandlish et al.,
/// "An Empirical Model of Large-Batch Training", 2018). Steps and examples trade off as (S/S_min - 1)(E/E_min - 1) = 1,
/// so
///   S(B) = S_min (1 + B_noise/B),   E(B) = B S(B) = E_min (1 + B/B_noise),   B_noise = E_min/S_min.
/// At B_noise training takes twice the minimum of steps and twice the minimum of examples.
struct NoiseModel {
  double noise_scale = 0;   ///< B_noise, samples
  double least_epochs = 1;  ///< E_min
  double epochs(double batch) const { return least_epochs * (1 + batch / noise_scale); }
};

/// Fits the model to the points that reached the target: least squares of the relative error of E at each point. Empty
/// if fewer than three points reached the target, or if larger batches do not need more epochs.
struct NoiseFit {
  NoiseModel model;
  double worst = 0;  ///< largest relative difference to a point
};
std::optional<NoiseFit> fit_noise_model(const std::vector<EpochsPoint>& points);

class EpochsToTarget {
 public:
  /// A table of points; `source` is "measured" or "assumed". Between two points E is linear in log B. Below the
  /// smallest batch, E is that of the smallest batch (smaller batches need no more examples). Above the largest batch,
  /// and next to a batch that did not reach the target, E is not known. Points of the same batch are averaged; if one
  /// of them did not reach the target, that batch did not. Throws a user error for no points, a batch below 1, or
  /// epochs that are not a positive number.
  static EpochsToTarget table(std::vector<EpochsPoint> points, std::string source);
  static EpochsToTarget of(const NoiseModel& model);

  Epochs at(double batch) const;
  const std::string& source() const { return source_; }
  const std::vector<EpochsPoint>& points() const { return points_; }  ///< ascending by batch; empty for a noise model

 private:
  std::vector<EpochsPoint> points_;  ///< one per batch, ascending
  std::optional<NoiseModel> model_;
  std::string source_;
};

}  // namespace trireme
