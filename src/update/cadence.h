// How often replicas exchange, counted in a replica's own steps or its passes over its share of the samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/config.h"
#include "trireme/policy.h"

namespace trireme {

/// Both lengths are whole numbers; every.count is at least 1.
class Cadence {
 public:
  /// `dense_until`: up to that length of training, an exchange is due after every step (post-local SGD).
  explicit Cadence(Length every, Length dense_until = {0, Length::Unit::steps})
      : every_(every), dense_until_(dense_until) {}

  /// Returns true if an exchange is due. Call it once after each step.
  bool due_after(const StepFacts& facts);
  /// True if steps were made since the last due exchange.
  bool has_pending() const { return pending_; }
  void settle() { pending_ = false; }
  /// Saves or restores its counters, under names that begin with "cadence".
  void fields(StateFields& fields);

 private:
  Length every_, dense_until_;
  int64_t steps_ = 0, epochs_ = 0;  ///< in total
  int64_t since_ = 0;               ///< steps or epochs since the last exchange
  bool pending_ = false;
};

/// Reads "16 steps" or "1 epochs": a whole number, at least `at_least`. Errors (user): as ConfigTable's.
Length read_whole_length(const ConfigTable& table, std::string_view key, Length fallback, int64_t at_least);
/// Returns the length as written: "16 steps".
std::string text_of(const Length& length);

}  // namespace trireme
