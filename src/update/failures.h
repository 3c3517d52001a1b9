// Simulated failures of replicas on the modelled clock, temporary or permanent.
#pragma once

#include <limits>
#include <vector>

namespace trireme {

struct Failure {
  int replica = 0;
  double at = 0;                                                ///< seconds on the modelled clock
  double back_after = std::numeric_limits<double>::infinity();  ///< seconds; infinity: never
};

/// A replica that fails loses its current step and makes no steps until it returns, with the weights and moments that
/// it had. Only steps are affected: a replica that fails while it waits or exchanges is delayed at its next step.
class Failures {
 public:
  Failures() = default;
  explicit Failures(std::vector<Failure> failures);

  struct Work {
    double end = 0;        ///< when the work ends, or when the replica fails for good
    bool is_lost = false;  ///< true: the work never ends
    double failed_at = 0;  ///< if it is lost: the time of the failure, which can be before `begin`
  };
  /// Returns the end of `seconds` of work that the replica starts at `begin`.
  Work work(int replica, double begin, double seconds) const;

 private:
  std::vector<Failure> failures_;  ///< sorted by time
};

/// Throws the error of a run whose replicas all wait for one that has failed for good. `kind`: "replica" or "worker".
[[noreturn]] void fail_lost(const char* kind, int number, double at);

}  // namespace trireme
