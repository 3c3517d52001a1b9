// The samples of a padded set with less padding, so that batches of short sentences need not be as long as the longest
// sentence of all.
#pragma once

#include <memory>
#include <string>

#include "data/text/token_rows.h"

namespace trireme {

/// Returns the smallest lengths that hold these samples of the set, rounded up to multiples of `multiple`, but not
/// longer than the set's padded length. `multiple` is at least 1.
PartLengths parts_for(const PaddedSet& set, std::span<const int64_t> indices, int64_t multiple);

/// The samples of `whole`, with the same indices, padded to `parts`. Only samples that fit may be requested
/// (PaddedSet::get_padded).
class RepaddedSet final : public Dataset {
 public:
  RepaddedSet(std::shared_ptr<const PaddedSet> whole, const PartLengths& parts);

  int64_t size() const override { return whole_->size(); }
  Shape sample_shape() const override { return {parts_.positions()}; }
  Shape target_shape() const override;
  LearningTask task() const override { return whole_->task(); }
  int64_t classes() const override { return whole_->classes(); }
  int64_t vocabulary() const override { return whole_->vocabulary(); }
  bool decodes() const override { return whole_->decodes(); }
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override;

  const PaddedSet& whole() const { return *whole_; }

 private:
  std::shared_ptr<const PaddedSet> whole_;
  PartLengths parts_;
};

}  // namespace trireme
