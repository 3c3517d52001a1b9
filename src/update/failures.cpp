#include "update/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "trireme/error.h"

namespace trireme {

Failures::Failures(std::vector<Failure> failures) : failures_(std::move(failures)) {
  std::stable_sort(failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) { return a.at < b.at; });
}

Failures::Work Failures::work(int replica, double begin, double seconds) const {
  for (const Failure& failure : failures_) {
    if (failure.replica != replica) continue;
    if (begin + seconds <= failure.at) break;
    const double back = failure.at + failure.back_after;
    if (back <= begin) continue;
    if (std::isinf(back)) return {std::max(begin, failure.at), true, failure.at};
    begin = back;
  }
  return {begin + seconds};
}

void fail_lost(const char* kind, int number, double at) {
  fail_run({fmt::format("{} {}", kind, number), fmt::format("fails after {} and never returns", format_seconds(at)),
            "all others wait for it",
            "set back_after for the failure, or use a policy under which no replica waits for others"});
}

}  // namespace trireme
