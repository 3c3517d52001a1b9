// A time limit of a search.
#pragma once

#include <chrono>
#include <optional>

namespace trireme {

/// The time until which a search may run.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  /// `seconds` from now; nullopt: no limit.
  explicit Deadline(std::optional<double> seconds) {
    if (seconds)
      end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(*seconds));
  }
  bool passed() const { return end_ && Clock::now() >= *end_; }
  std::optional<double> seconds_left() const {
    if (!end_) return std::nullopt;
    return std::chrono::duration<double>(*end_ - Clock::now()).count();
  }

 private:
  std::optional<Clock::time_point> end_;
};

}  // namespace trireme
