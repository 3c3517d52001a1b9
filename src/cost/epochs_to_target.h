// E(B): epochs that training needs to its target with a global batch of B samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// One training with one batch.
struct EpochsPoint {
  int64_t batch = 0;
  std::optional<double> epochs;  ///< none: the target was not reached
};

/// E at one batch. Nothing is guessed: where E is not known there is no value, and the basis says why.
struct Epochs {
  std::optional<double> value;
  std::string basis;  ///< "measured", "interpolated", "as with batch 32", "not reached with batch 512", "no batch
                      ///< beyond 1024 was tried"
};

/// What an estimate of the noise scale or a fit to measured points says (McCandlish et al., "An Empirical Model of
/// Large-Batch Training", 2018). Steps and examples trade off as (S/S_min - 1)(E/E_min - 1) = 1, so
///   S(B) = S_min (1 + B_noise/B),   E(B) = B S(B) = E_min (1 + B/B_noise),   B_noise = E_min/S_min:
/// at B_noise training takes twice the fewest steps and twice the fewest examples.
struct NoiseModel {
  double noise_scale = 0;   ///< B_noise, samples
  double least_epochs = 1;  ///< E_min
  double epochs(double batch) const { return least_epochs * (1 + batch / noise_scale); }
};

/// The model that fits the points that were reached: least squares of E/E_min relative to each point. None with fewer
/// than three, or where larger batches do not need more epochs.
struct NoiseFit {
  NoiseModel model;
  double worst = 0;  ///< largest relative difference to a point
};
std::optional<NoiseFit> fit_noise_model(const std::vector<EpochsPoint>& points);

class EpochsToTarget {
 public:
  /// A table; `source` ("measured", "assumed") is what its points are called. Between two points E is linear in log B;
  /// below the smallest batch it is that one's (smaller batches need no more examples); above the largest, and next to
  /// a batch with which the target was not reached, it is not known. Points of one batch: their mean, none reached
  /// where one was not. Errors (user): no points, a batch below 1, epochs that are no positive number.
  static EpochsToTarget table(std::vector<EpochsPoint> points, std::string source);
  static EpochsToTarget of(const NoiseModel& model);

  Epochs at(double batch) const;
  const std::string& source() const { return source_; }
  const std::vector<EpochsPoint>& points() const { return points_; }  ///< by batch; none of a noise model

 private:
  std::vector<EpochsPoint> points_;  ///< one per batch, ascending
  std::optional<NoiseModel> model_;
  std::string source_;
};

}  // namespace trireme
