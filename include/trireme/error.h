// Errors as one clear line: where, what, why, what to do next.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

/// Who has to act. Decides the exit code of the program: 2 for the user's input, 1 for a run that failed.
enum class Blame { user, run };

/// The parts of an error message. Empty parts are left out.
struct Diagnosis {
  std::string where;  ///< file, key, layer, device: the place a person would look at first
  std::string what;   ///< the offending value or operation
  std::string why;    ///< the rule it breaks
  std::string next;   ///< what to do about it
};

/// The only exception type that Trireme throws on purpose. `what()` is a single line: `where: what: why; next`.
class Error : public std::runtime_error {
 public:
  Error(Blame blame, Diagnosis diagnosis);

  Blame blame() const { return blame_; }
  const Diagnosis& diagnosis() const { return diagnosis_; }

 private:
  Blame blame_;
  Diagnosis diagnosis_;
};

/// A run's error that only says that another worker has ended it: where one is at hand that does not, that is the
/// cause.
class StoppedError : public Error {
 public:
  explicit StoppedError(Diagnosis diagnosis) : Error(Blame::run, std::move(diagnosis)) {}
};

/// Bad input: a file, key, flag or plan that the user can correct.
[[noreturn]] void fail_user(Diagnosis diagnosis);

/// A run that cannot go on: memory limit, dead worker, disk.
[[noreturn]] void fail_run(Diagnosis diagnosis);

/// A broken promise inside Trireme: `condition` must hold whatever the user does.
void check_internal(bool condition, std::string_view promise);

/// First line of any exception's text, without libtorch's C++ stack trace.
std::string first_line(const std::exception& error);

}  // namespace trireme
