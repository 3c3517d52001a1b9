// How a message travels: a frame, which says what is coming and carries it when it is short, then the rest as a
// transfer of its own. Frames are copied as they lie in memory: all ranks run the same program on machines of one byte
// order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/transport.h"

namespace trireme {

enum class FrameKind : int32_t {
  message,     // of send()
  collective,  // one rank's part for another in a collective
  waiting,     // "I am waiting for some rank"; fails to be written if the other end is gone
  abort,       // with the reason as its data
};

constexpr int kFrameTag = 0;  ///< the transport's tag of all frames; payloads have others
constexpr int kMaxDims = 8;
constexpr int kMaxText = 192;
constexpr int64_t kInlineBytes = 16 * 1024;  ///< up to here the payload rides in the frame

struct FrameHeader {
  FrameKind kind = FrameKind::waiting;
  int32_t dtype = 0;  ///< at::ScalarType
  int64_t group = 0;
  int64_t tag = 0;  ///< message: the sender's tag; collective: the number of the call in its group. waiting: of what is
                    ///< waited for
  int64_t bytes = 0;
  int32_t payload_tag = 0;  ///< the transport's tag of the payload; 0: inline
  int32_t dims = 0;
  int32_t awaited = -1;                 ///< waiting: the rank that is waited for
  int32_t concurrent = 0;               ///< waiting: 1 where it is another thread than the rank's own that waits
  int32_t reserved = 0;                 ///< no byte that is sent is left to chance
  FrameKind what = FrameKind::waiting;  ///< waiting: a message or a collective of that rank
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};
  char text[kMaxText] = {};  ///< collective: the call's fingerprint; waiting: the operation. Cut off if too long

  void set_text(const std::string& call);
  /// Shape, dtype and strides of `tensor`. Undefined: no elements.
  void describe(const at::Tensor& tensor);
  bool matches(const at::Tensor& tensor) const;  ///< dtype and shape; nothing to say matches anything without elements
  std::string shape_text() const;                ///< "Float [4, 5]"
};

/// A frame as bytes, with `data` (header.bytes of them) behind the header when header.payload_tag is 0.
at::Tensor pack_frame(const FrameHeader& header, const void* data);
at::Tensor empty_frame();  ///< room for any frame

/// What has come from one rank. Either `inline_bytes`, or a tensor and the transfer that fills it, or (both empty) a
/// payload that is still to be received with header.payload_tag.
struct Arrival {
  FrameHeader header;
  std::vector<char> inline_bytes;
  at::Tensor tensor;
  std::unique_ptr<Transfer> transfer;
};

Arrival unpack_frame(const at::Tensor& frame);

/// "Float [4, 5]", or "nothing" if undefined.
std::string shape_text(const at::Tensor& tensor);

/// The elements in memory order, without copying: `tensor` must be dense.
at::Tensor flat_view(const at::Tensor& tensor);
/// `tensor` itself if it is dense (in whatever order), else a contiguous copy.
at::Tensor dense(const at::Tensor& tensor);

}  // namespace trireme
