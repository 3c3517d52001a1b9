// The two ends of the connections between a server and its clients: ZeroMQ sockets under CurveZMQ, which carry messages
// of any length in pieces.
//
// Pieces: ZeroMQ's heartbeats travel between messages, so that a long one over a slow link would look like a dead peer.
// A message is cut into pieces of at most kPiece bytes, each a ZeroMQ message of one byte (1: the last of them) and the
// piece. What a peer has in memory here is bounded by the largest message, and grows only with what it really sent.
//
// Both ends belong to one thread each; only their ZeroMQ context's own threads read and write the network. Whoever has
// not the keys does not get past those: no byte of theirs reaches this code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous/token.h"

namespace trireme {

inline constexpr int64_t kPiece = 256 * 1024;

/// When a peer that says nothing counts as lost.
struct WireHeartbeat {
  double every = 1;       ///< seconds between two
  double lost_after = 5;  ///< seconds without a sign of life
};

class ServerWire {
 public:
  /// Listens at "tcp://ADDRESS:PORT" from here on (an address, an interface, * or localhost). `largest`: bytes of a
  /// message. Errors (run): the address is taken or not this machine's.
  ServerWire(const std::string& listen, const CurveKeys& keys, int64_t largest, const WireHeartbeat& heartbeat);
  ~ServerWire();

  /// Where it listens, with the port that it got.
  const std::string& endpoint() const { return endpoint_; }

  struct Arrival {
    std::string peer;        ///< a connection
    std::string bytes;       ///< a whole message
    bool too_large = false;  ///< it was more than `largest`: no bytes, and nothing more of this peer will come
  };
  /// What has come; waits up to `seconds` for something.
  std::vector<Arrival> receive(double seconds);

  /// False: the connection is gone.
  bool send(const std::string& peer, const std::string& bytes);
  /// Nothing of this peer is taken any more.
  void ignore(const std::string& peer);

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
  std::string endpoint_;
};

class ClientWire {
 public:
  /// Tries to connect from here on. Errors (run): an address that cannot be one.
  ClientWire(const std::string& server, const CurveKeys& keys, int64_t largest, const WireHeartbeat& heartbeat);
  ~ClientWire();

  enum class State {
    connecting,  ///< nobody has answered yet
    connected,
    refused,  ///< whoever listens there does not take these keys
    lost,     ///< the connection was there and broke
  };
  /// As of the last receive.
  State state() const;

  /// Whole messages that have come; waits up to `seconds` for something, be it a change of state. Errors (run): one
  /// that is too large.
  std::vector<std::string> receive(double seconds);
  void send(const std::string& bytes);

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace trireme
