// Replicas that fail on the modelled clock, for a while or for good.
#pragma once

#include <limits>
#include <vector>

namespace trireme {

struct Failure {
  int replica = 0;
  double at = 0;                                                ///< seconds on the clock
  double back_after = std::numeric_limits<double>::infinity();  ///< seconds; infinity: never
};

/// A replica that fails loses the step that it is making, and makes none until it is back: with the weights and moments
/// that it had. Only steps are hit: who is waiting or exchanging when it fails is held up at its next step.
class Failures {
 public:
  Failures() = default;
  explicit Failures(std::vector<Failure> failures);

  struct Work {
    double end = 0;        ///< when it is through; or when the replica fails for good
    bool is_lost = false;  ///< it never is
  };
  /// Of `seconds` of work that the replica takes up at `begin`.
  Work work(int replica, double begin, double seconds) const;

 private:
  std::vector<Failure> failures_;  ///< by time
};

/// The error of a run whose replicas all wait for one that has failed for good. `kind`: "replica" or "worker".
[[noreturn]] void fail_lost(const char* kind, int number, double at);

}  // namespace trireme
