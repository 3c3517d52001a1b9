#include "data/text/text_stream.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "trireme/error.h"

namespace trireme {

TextStream::TextStream(std::vector<int32_t> tokens, int64_t vocabulary, int64_t window, const char* text)
    : tokens_(std::move(tokens)), vocabulary_(vocabulary), window_(window) {
  if (window < 1)
    fail_user({.where = "data.sequence",
               .what = std::to_string(window),
               .why = "a sample of text holds at least one token",
               .next = "set a positive number"});
  const auto count = static_cast<int64_t>(tokens_.size());
  if (count <= window)
    fail_user({.where = "data.sequence",
               .what = std::to_string(window),
               .why = fmt::format("{} has {} tokens; a sample takes its own and the one after them", text, count),
               .next = fmt::format("set at most {}", std::max<int64_t>(count - 1, 1))});
}

void TextStream::keep_first(int64_t n) {
  if (n > 0 && n < size()) tokens_.resize(static_cast<size_t>(n * window_ + 1));
}

Samples TextStream::get(std::span<const int64_t> indices, const Draw&) const {
  const auto n = static_cast<int64_t>(indices.size());
  Samples samples{at::empty({n, window_}, at::kLong), at::empty({n, window_}, at::kLong)};
  auto *data = samples.data.data_ptr<int64_t>(), *target = samples.target.data_ptr<int64_t>();
  for (const int64_t i : indices) {
    check_internal(i >= 0 && i < size(), "a sample index lies inside its dataset");
    const auto first = tokens_.begin() + i * window_;
    data = std::copy(first, first + window_, data);
    target = std::copy(first + 1, first + window_ + 1, target);
  }
  return samples;
}

}  // namespace trireme
