// How often replicas exchange, counted in a replica's own steps or passes over its share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/config.h"
#include "trireme/policy_state.h"
#include "trireme/replica_state.h"
#include "trireme/units.h"

namespace trireme {

/// Both lengths in whole numbers; every.count at least 1.
class Cadence {
 public:
  /// `dense_until`: before that much of training an exchange is due after every step (post-local SGD).
  explicit Cadence(Length every, Length dense_until = {0, Length::Unit::steps})
      : every_(every), dense_until_(dense_until) {}

  /// To be asked once after each step: whether an exchange is due.
  bool due_after(const StepFacts& facts);
  /// Steps made since the last one that was due.
  bool has_pending() const { return pending_; }
  void settle() { pending_ = false; }
  /// Its counters, under names that begin with "cadence".
  void fields(StateFields& fields);

 private:
  Length every_, dense_until_;
  int64_t steps_ = 0, epochs_ = 0;  ///< in all
  int64_t since_ = 0;               ///< steps or epochs since the last exchange
  bool pending_ = false;
};

/// "16 steps", "1 epochs": whole, at least `at_least`. Errors (user): as ConfigTable's.
Length read_whole_length(const ConfigTable& table, std::string_view key, Length fallback, int64_t at_least);
/// As it is written: "16 steps".
std::string text_of(const Length& length);

}  // namespace trireme
