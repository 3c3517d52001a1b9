// Messages between the server of replicas and its clients, as bytes: a head of fixed size with a version, then numbers,
// a text and the shapes of tensors, then the tensors' raw values. Little-endian. Not a format for files.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class Verb : uint16_t {
  // sent by clients
  hello,          ///< text: what the client will train; numbers: the client number that it wants, or -1
  sum,            ///< sum of the tensors over the members; numbers: the members, none: all
  total,          ///< sum of the first number; the further numbers are the members
  sum_meanwhile,  ///< as sum, over all clients, in the background; any number at once
  gather,         ///< one tensor of each member, by client number; numbers: as of sum; in the background
  visit,          ///< a Request to a shard
  report,         ///< to the server's owner; not answered
  leave,          ///< numbers: counts of its exchanges (HubCounts). Or text: why it failed; then not answered
  // sent by the server
  welcome,  ///< numbers: the client's number, the number of clients; text: the owner's text
  refused,  ///< text: the reason
  /// numbers: seconds on the server's clock; 1 if other clients have begun before; the client's first step; 1 if it is
  /// the first of the clients that begin
  start,
  /// to a collective: numbers: seconds waited for others, number of clients, number of the first, the total. To a
  /// visit: seconds waited, then the reply's numbers. To leave: no contents
  answer,
  abort,  ///< text: the reason
  ping,   ///< no contents; tests the client's connection
};
inline constexpr Verb kLastVerb = Verb::ping;

struct Message {
  Verb verb = Verb::ping;
  uint64_t ticket = 0;  ///< the client's numbering of its requests; an answer has its request's ticket
  int shard = 0;        ///< for visit
  int operation = 0;    ///< for visit and report
  bool counted = true;  ///< for collectives and visits: false if the hub is not metered
  std::vector<double> numbers = {};
  std::string text = {};
  std::vector<at::Tensor> tensors = {};
};

/// Maximum bytes of a message without its tensors.
inline constexpr int64_t kLargestHead = 1 << 20;

/// Tensors must be dense and of dtype Float, Double, BFloat16, Long, Int or Byte, on any device.
std::string encode(const Message& message);

/// Tensors are on the host. Errors (run): bytes that `encode` of this version has not made; one line says what is
/// wrong. Uses no more memory than a small multiple of the bytes.
Message decode(std::string_view bytes);

}  // namespace trireme
