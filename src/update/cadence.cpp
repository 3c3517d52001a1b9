#include "update/cadence.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace trireme {

bool Cadence::due_after(const StepFacts& facts) {
  // a step belongs to the dense part if training had not reached that part's end before the step
  const bool dense = double(dense_until_.unit == Length::Unit::steps ? steps_ : epochs_) < dense_until_.count;
  ++steps_;
  epochs_ += facts.ends_epoch ? 1 : 0;
  if (!dense && (every_.unit == Length::Unit::steps || facts.ends_epoch)) ++since_;
  const bool due = dense || since_ >= int64_t(every_.count);
  if (due) since_ = 0;
  pending_ = !due;
  return due;
}

void Cadence::fields(StateFields& fields) {
  fields.value("cadence steps", steps_);
  fields.value("cadence epochs", epochs_);
  fields.value("cadence since the last exchange", since_);
  fields.value("cadence has pending", pending_);
}

std::string text_of(const Length& length) {
  return fmt::format("{} {}", length.count, length.unit == Length::Unit::steps ? "steps" : "epochs");
}

Length read_whole_length(const ConfigTable& table, std::string_view key, Length fallback, int64_t at_least) {
  const Length length = table.get_length(key, fallback);
  if (length.count != std::floor(length.count) || length.count < double(at_least))
    table.fail(key, fmt::format("it must be a whole number of steps or epochs, at least {}", at_least),
               "write \"16 steps\" or \"1 epochs\"");
  return length;
}

}  // namespace trireme
