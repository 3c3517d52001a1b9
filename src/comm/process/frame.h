// How a message is transferred: first a frame, which describes the message and contains its data if they are short;
// otherwise the data follow as a transfer of their own. Frames are copied as they are in memory: all ranks run the same
// program on machines of one byte order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/backend.h"

namespace trireme {

enum class FrameKind : int32_t {
  message,       // of send()
  collective,    // one rank's part for another in a collective
  waiting,       // "I am waiting for a rank"; the write fails if the other end is gone
  abort,         // the frame's data are the reason
  leaving,       // the rank sends nothing more, and needs nothing more
  seen_leaving,  // the answer to it: nothing more will be received from that rank
};

constexpr int kFrameTag = 0;  ///< the transport's tag of all frames; payloads have other tags
constexpr int kMaxDims = 8;
constexpr int kMaxText = 192;
constexpr int64_t kInlineBytes = int64_t{16} * 1024;  ///< payloads up to this size are part of the frame

struct FrameHeader {
  FrameKind kind = FrameKind::waiting;
  int32_t dtype = 0;  ///< at::ScalarType
  int64_t group = 0;
  /// message: the sender's tag; collective: the number of the call in its group; waiting: the awaited tag or number
  int64_t tag = 0;
  int64_t bytes = 0;
  int32_t payload_tag = 0;  ///< the transport's tag of the payload; 0: inline
  int32_t dims = 0;
  int32_t awaited = -1;                 ///< waiting: the rank that this rank waits for
  int32_t concurrent = 0;               ///< waiting: 1 if a thread other than the rank's main thread waits
  int32_t on_gpu = 0;                   ///< message: 1 if the sent tensor is in a GPU's memory
  FrameKind what = FrameKind::waiting;  ///< waiting: whether for a message or a collective of that rank
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};
  char text[kMaxText] = {};  ///< collective: the call's fingerprint; waiting: the operation. Cut off if too long

  void set_text(const std::string& call);
  /// Sets shape, dtype, strides and bytes from `tensor`. An undefined tensor has no elements.
  void describe(const at::Tensor& tensor);
  /// True if dtype and shape match. No data matches any tensor without elements.
  bool matches(const at::Tensor& tensor) const;
  std::string shape_text() const;  ///< "Float [4, 5]"
};

/// Returns a frame as bytes. If header.payload_tag is 0, `data` (header.bytes of them) follow the header.
at::Tensor pack_frame(const FrameHeader& header, const void* data);
at::Tensor empty_frame();  ///< room for any frame

/// What has arrived from one rank: either `inline_bytes`; or a tensor and the transfer that fills it; or (both empty) a
/// payload that must still be received with header.payload_tag.
struct Arrival {
  FrameHeader header;
  std::vector<char> inline_bytes;
  at::Tensor tensor;
  std::unique_ptr<Transfer> transfer;
};

Arrival unpack_frame(const at::Tensor& frame);

/// The elements in memory order, without copying. `tensor` must be dense.
at::Tensor flat_view(const at::Tensor& tensor);
/// Returns `tensor` itself if it is dense (in any order of dims), otherwise a contiguous copy.
at::Tensor dense(const at::Tensor& tensor);

}  // namespace trireme
