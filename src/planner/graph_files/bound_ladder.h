// How an exact search gets its bound.
#pragma once

#include <algorithm>

namespace trireme {

/// A search for plans below a bound is quick where the bound is near the truth, and where it finds none has proven the
/// bound. So the bounds are tried from a known lower bound upwards, to the best plan known.
class BoundLadder {
 public:
  BoundLadder(double lower, double upper) : lower_(lower), upper_(upper), proven_(std::min(lower, upper)) {}

  /// What to search below now.
  double bound() const { return lower_ > 0 && gap_ < kLastGap ? std::min(upper_, lower_ * (1 + gap_)) : upper_; }
  /// Nothing is below bound(): takes the next one. False where that was the last.
  bool raise() {
    proven_ = std::max(proven_, bound());
    if (bound() == upper_) return false;
    gap_ *= kSteeper;
    return true;
  }
  /// No plan is better than this.
  double proven() const { return proven_; }

 private:
  static constexpr double kFirstGap = 0.002, kSteeper = 2, kLastGap = 4;  // relative
  double lower_, upper_, proven_;
  double gap_ = kFirstGap;
};

}  // namespace trireme
