// Sentences as token ids, padded when samples are made of them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/dataset.h"

namespace trireme {

/// Rows of tokens of any lengths, end to end in memory.
class TokenRows {
 public:
  int64_t count() const { return static_cast<int64_t>(ends_.size()); }
  std::span<const int32_t> row(int64_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i) - 1];
    return std::span(tokens_).subspan(begin, ends_[static_cast<size_t>(i)] - begin);
  }
  void add(std::span<const int32_t> row) {
    tokens_.insert(tokens_.end(), row.begin(), row.end());
    ends_.push_back(tokens_.size());
  }
  /// Keeps only the first n rows; 0: all.
  void keep_first(int64_t n) {
    if (n <= 0 || n >= count()) return;
    ends_.resize(static_cast<size_t>(n));
    tokens_.resize(ends_.back());
  }

 private:
  std::vector<int32_t> tokens_;
  std::vector<size_t> ends_;
};

/// Copies `tokens` to `to` and pads up to `length`. Returns the position after the padding.
inline int64_t* copy_padded(std::span<const int32_t> tokens, int64_t length, int64_t* to) {
  std::fill(std::copy(tokens.begin(), tokens.end(), to), to + length, int64_t{kPadding});
  return to + length;
}

/// The lengths of a sample's parts, in tokens. For a sentence: {its length, 0}. For a translation: the source and the
/// decoder's input.
struct PartLengths {
  int64_t first = 0;
  int64_t second = 0;
  int64_t positions() const { return first + second; }
  bool holds(const PartLengths& other) const { return other.first <= first && other.second <= second; }
  friend auto operator<=>(const PartLengths&, const PartLengths&) = default;
};

/// A set of samples that are padded to one length.
class PaddedSet : public Dataset {
 public:
  /// Returns the lengths of sample i without padding.
  virtual PartLengths parts(int64_t i) const = 0;
  /// Returns the lengths of every sample with padding.
  virtual PartLengths padded_parts() const = 0;
  /// Returns samples with less padding. Errors: internal, if one of them is longer than `to`, or an index is out of
  /// range.
  virtual Samples get_padded(std::span<const int64_t> indices, const PartLengths& to) const = 0;

  Samples get(std::span<const int64_t> indices, const Draw&) const final { return get_padded(indices, padded_parts()); }
  /// Returns, for each sample, the number of positions in its data that are not padding.
  std::vector<int32_t> lengths() const {
    std::vector<int32_t> lengths;
    for (int64_t i = 0; i < size(); ++i) lengths.push_back(static_cast<int32_t>(parts(i).positions()));
    return lengths;
  }
};

}  // namespace trireme
