// What the server of replicas and its clients say to each other, as bytes: a head of fixed size with a version, then
// numbers, a text and the shapes of tensors, then the tensors' raw values. Little-endian; not meant to be kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class Verb : uint16_t {
  // a client's
  hello,          ///< text: what it is about to train; numbers: the client's number that it wants, or -1
  sum,            ///< of the tensors over the members, which are the numbers; none: all
  total,          ///< of the first number over the members, the others
  sum_meanwhile,  ///< as sum, of all; any number at once
  gather,         ///< of one tensor of all, by number of client
  visit,          ///< a Request to a shard
  report,         ///< to the server's owner; not answered
  leave,          ///< numbers: what its exchanges took (HubCounts); text: why, where it did not come to its end
  // the server's
  welcome,  ///< numbers: the client's number, the number of clients; text: what the owner tells
  refused,  ///< text: why
  start,   ///< numbers: seconds on the server's clock, 1 where the others have begun before, the client's first step, 1
           ///< where it is
           ///< the first of those that begin
  answer,  ///< to a collective: numbers: seconds that others were waited for, how many came, the first of them, the
           ///< total. To a visit:
           ///< the seconds, then the reply's numbers
  abort,   ///< text: why
  ping,    ///< nothing: whether the client is still there
};
inline constexpr Verb kLastVerb = Verb::ping;

struct Message {
  Verb verb = Verb::ping;
  uint64_t ticket = 0;  ///< the client's numbering of what it asks; an answer has its question's
  int shard = 0;        ///< of visit
  int operation = 0;    ///< of visit and report
  bool counted = true;  ///< of collectives and visits: false where the hub is not metered
  std::vector<double> numbers = {};
  std::string text = {};
  std::vector<at::Tensor> tensors = {};
};

/// Bytes of a message beside its tensors, at most.
inline constexpr int64_t kLargestHead = 1 << 20;

/// Tensors must be dense and of a dtype that can travel: Float, Double, BFloat16, Long, Int, Byte.
std::string encode(const Message& message);

/// Errors (run): bytes that no `encode` of this version has made, one line that says what is wrong. Takes no more
/// memory than a small multiple of the bytes.
Message decode(std::string_view bytes);

}  // namespace trireme
