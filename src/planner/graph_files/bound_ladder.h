// Schedules the bounds of an exact search.
#pragma once

#include <algorithm>

namespace trireme {

/// A search for plans below a bound is fast if the bound is near the optimum. If the search finds no plan, the bound is
/// proven to be a lower bound. Therefore bounds are tried in ascending order, from a known lower bound to the best
/// known plan.
class BoundLadder {
 public:
  BoundLadder(double lower, double upper) : lower_(lower), upper_(upper), proven_(std::min(lower, upper)) {}

  /// The bound of the present search.
  double bound() const { return lower_ > 0 && gap_ < kLastGap ? std::min(upper_, lower_ * (1 + gap_)) : upper_; }
  /// Call if no plan is below bound(): advances to the next bound. Returns false if that was the last one.
  bool raise() {
    proven_ = std::max(proven_, bound());
    if (bound() == upper_) return false;
    gap_ *= kSteeper;
    return true;
  }
  /// A proven lower bound.
  double proven() const { return proven_; }

 private:
  static constexpr double kFirstGap = 0.002, kSteeper = 2, kLastGap = 4;  // relative
  double lower_, upper_, proven_;
  double gap_ = kFirstGap;
};

}  // namespace trireme
