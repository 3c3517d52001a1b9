#include "trireme/error.h"

namespace trireme {
namespace {

std::string one_line(const Diagnosis& d) {
  std::string line;
  for (const std::string* part : {&d.where, &d.what, &d.why}) {
    if (part->empty()) continue;
    if (!line.empty()) line += ": ";
    line += *part;
  }
  if (!d.next.empty()) line += (line.empty() ? "" : "; ") + d.next;
  for (char& c : line)
    if (c == '\n') c = ' ';
  return line;
}

}  // namespace

Error::Error(Blame blame, Diagnosis diagnosis)
    : std::runtime_error(one_line(diagnosis)), blame_(blame), diagnosis_(std::move(diagnosis)) {}

void fail_user(Diagnosis diagnosis) { throw Error(Blame::user, std::move(diagnosis)); }

void fail_run(Diagnosis diagnosis) { throw Error(Blame::run, std::move(diagnosis)); }

void check_internal(bool condition, std::string_view promise) {
  if (condition) return;
  fail_run({.where = "internal error",
            .what = std::string(promise),
            .why = "",
            .next = "this is a defect in Trireme: please report it with the command that led here"});
}

}  // namespace trireme
