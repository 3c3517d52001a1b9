// The two ends of the connections between a server and its clients: ZeroMQ sockets with CurveZMQ, which transfer
// messages of any length in pieces.
//
// Pieces: ZeroMQ sends heartbeats only between messages, so during a long message over a slow link the peer would look
// dead. Therefore a message is cut into pieces of at most kPiece bytes. Each is a ZeroMQ message of one byte (1: the
// last piece) and the piece. The memory that a peer occupies here is bounded by the largest message, and grows only
// with the bytes that it really sent.
//
// Each end is used by one thread; only the threads of its ZeroMQ context access the network. A peer without the keys is
// rejected there: none of its bytes reach this code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/rendezvous/token.h"

namespace trireme {

inline constexpr int64_t kPiece = 256 * 1024;

/// When a silent peer counts as lost.
struct WireHeartbeat {
  double every = 1;       ///< seconds between two heartbeats
  double lost_after = 5;  ///< seconds without a sign of life
};

class ServerWire {
 public:
  /// Listens at "tcp://ADDRESS:PORT" (an address, an interface, * or localhost). `largest`: maximum bytes of a message.
  /// Errors (run): the address is in use or does not belong to this machine.
  ServerWire(const std::string& listen, const CurveKeys& keys, int64_t largest, const WireHeartbeat& heartbeat);
  ~ServerWire();

  /// The endpoint it listens on, with the actual port.
  const std::string& endpoint() const { return endpoint_; }

  struct Arrival {
    std::string peer;   ///< identifies a connection
    std::string bytes;  ///< a whole message
    /// the message had more than `largest` bytes; `bytes` is empty, and nothing more of this peer will arrive
    bool too_large = false;
  };
  /// Returns the arrived messages. Waits up to `seconds` for the first.
  std::vector<Arrival> receive(double seconds);

  /// Returns false if the connection is gone.
  bool send(const std::string& peer, const std::string& bytes);
  /// Drops everything that this peer sends from now on.
  void ignore(const std::string& peer);

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
  std::string endpoint_;
};

class ClientWire {
 public:
  /// Starts to connect. Errors (run): a malformed address.
  ClientWire(const std::string& server, const CurveKeys& keys, int64_t largest, const WireHeartbeat& heartbeat);
  ~ClientWire();

  enum class State {
    connecting,  ///< no answer yet
    connected,
    refused,  ///< the server does not accept these keys
    lost,     ///< the connection broke
  };
  /// The state as of the last receive().
  State state() const;

  /// Returns the complete messages that have arrived. Waits up to `seconds` for a message or a change of state. Errors
  /// (run): a message that is too large.
  std::vector<std::string> receive(double seconds);
  void send(const std::string& bytes);

 private:
  struct Sockets;
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace trireme
