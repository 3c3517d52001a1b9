#include "comm/process/frame.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/memory.h"
#include "trireme/error.h"

namespace trireme {

void FrameHeader::set_text(const std::string& call) {
  const size_t length = std::min<size_t>(call.size(), kMaxText - 1);
  std::memcpy(text, call.data(), length);
  text[length] = '\0';
}

void FrameHeader::describe(const at::Tensor& tensor) {
  dims = 1;
  sizes[0] = 0;
  strides[0] = 1;
  bytes = 0;
  if (!tensor.defined()) return;
  check_internal(tensor.dim() <= kMaxDims,
                 fmt::format("a message has at most {} dims, not {}", kMaxDims, tensor.dim()));
  dtype = static_cast<int32_t>(tensor.scalar_type());
  dims = static_cast<int32_t>(tensor.dim());
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), sizes);
  std::copy(tensor.strides().begin(), tensor.strides().end(), strides);
  bytes = static_cast<int64_t>(tensor.nbytes());
}

bool FrameHeader::matches(const at::Tensor& tensor) const {
  const bool wants_nothing = !tensor.defined() || tensor.numel() == 0;
  if (bytes == 0 && wants_nothing) return true;
  return tensor.defined() && dtype == static_cast<int32_t>(tensor.scalar_type()) &&
         tensor.sizes() == at::IntArrayRef(sizes, dims);
}

std::string FrameHeader::shape_text() const {
  return fmt::format("{} [{}]", c10::toString(static_cast<at::ScalarType>(dtype)),
                     fmt::join(sizes, sizes + dims, ", "));
}

at::Tensor pack_frame(const FrameHeader& header, const void* data) {
  const MemoryScope memory(MemoryCategory::buffers);
  const int64_t inline_bytes = header.payload_tag == 0 ? header.bytes : 0;
  at::Tensor frame = at::empty({static_cast<int64_t>(sizeof header) + inline_bytes}, at::kByte);
  auto* bytes = static_cast<char*>(frame.data_ptr());
  std::memcpy(bytes, &header, sizeof header);
  if (inline_bytes > 0) std::memcpy(bytes + sizeof header, data, inline_bytes);
  return frame;
}

at::Tensor empty_frame() { return at::empty({static_cast<int64_t>(sizeof(FrameHeader)) + kInlineBytes}, at::kByte); }

Arrival unpack_frame(const at::Tensor& frame) {
  Arrival arrival;
  const auto* bytes = static_cast<const char*>(frame.data_ptr());
  std::memcpy(&arrival.header, bytes, sizeof(FrameHeader));
  if (arrival.header.payload_tag == 0)
    arrival.inline_bytes.assign(bytes + sizeof(FrameHeader), bytes + sizeof(FrameHeader) + arrival.header.bytes);
  return arrival;
}

at::Tensor flat_view(const at::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

at::Tensor dense(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach();
  return plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
}

}  // namespace trireme
