#include "data/text/repadded_set.h"

#include <algorithm>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

int64_t rounded_up(int64_t length, int64_t multiple, int64_t most) {
  return std::min((length + multiple - 1) / multiple * multiple, most);
}

}  // namespace

PartLengths parts_for(const PaddedSet& set, std::span<const int64_t> indices, int64_t multiple) {
  check_internal(multiple >= 1, "lengths are multiples of a positive number");
  PartLengths longest;
  for (const int64_t i : indices) {
    const PartLengths parts = set.parts(i);
    longest = {std::max(longest.first, parts.first), std::max(longest.second, parts.second)};
  }
  const PartLengths most = set.padded_parts();
  return {rounded_up(longest.first, multiple, most.first), rounded_up(longest.second, multiple, most.second)};
}

RepaddedSet::RepaddedSet(std::shared_ptr<const PaddedSet> whole, const PartLengths& parts)
    : whole_(std::move(whole)), parts_(parts) {
  check_internal(whole_->padded_parts().holds(parts), "a repadded set has less padding, not more");
}

/// A sentence has one target; a translation has one target per token of the decoder's input.
Shape RepaddedSet::target_shape() const { return whole_->target_shape().empty() ? Shape{} : Shape{parts_.second}; }

Samples RepaddedSet::get(std::span<const int64_t> indices, const Draw&) const {
  return whole_->get_padded(indices, parts_);
}

}  // namespace trireme
