// Errors in one line: where, what, why, what to do next.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace trireme {

/// The side that must act on an error. Decides the program's exit code: 2 for the user's input, 1 for a failed run.
enum class Blame { user, run };

/// The parts of an error message. Empty parts are left out.
struct Diagnosis {
  std::string where;  ///< file, key, layer or device: where to look first
  std::string what;   ///< the offending value or operation
  std::string why;    ///< the rule it breaks
  std::string next;   ///< what to do about it
};

/// The only exception type that Trireme throws itself. `what()` is a single line: `where: what: why; next`.
class Error : public std::runtime_error {
 public:
  Error(Blame blame, Diagnosis diagnosis);

  Blame blame() const { return blame_; }
  const Diagnosis& diagnosis() const { return diagnosis_; }

 private:
  Blame blame_;
  Diagnosis diagnosis_;
};

/// A run error which says only that another worker has stopped this one. If another error is present, that one is the
/// cause and is reported instead.
class StoppedError : public Error {
 public:
  explicit StoppedError(Diagnosis diagnosis) : Error(Blame::run, std::move(diagnosis)) {}
};

/// Throws for bad input: a file, key, flag or plan that the user can correct.
[[noreturn]] void fail_user(Diagnosis diagnosis);

/// Throws for a run that cannot continue: memory limit, dead worker, disk.
[[noreturn]] void fail_run(Diagnosis diagnosis);

/// Throws an internal error if `condition` is false. `promise` states what must hold for every user input.
void check_internal(bool condition, std::string_view promise);

}  // namespace trireme
