#include "comm/rendezvous/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <zmq.hpp>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr char kLast = 1, kMore = 0;
constexpr int kOverhead = 1024;        // bytes that encryption adds to a piece
constexpr int kHandshakeSeconds = 10;  // a peer that has not proven by then that it has the token is disconnected
// long: a frozen server must not count as one that refused; a joining client gives up much earlier by itself
constexpr int kClientHandshakeSeconds = 3600;
constexpr int kLingerMilliseconds = 1000;  // time for the last messages to be sent
constexpr int kTurn = 64;                  // pieces received before the caller's other work gets a turn
constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";
constexpr const char* kMonitorEndpoint = "inproc://monitor";
constexpr std::string_view kDomain = "trireme";

int milliseconds_of(double seconds) { return int(std::lround(std::max(0.0, seconds) * 1000)); }

/// Waits until one of the two has something to read. A signal ends the wait.
void wait_for_either(zmq::socket_t& a, zmq::socket_t& b, double seconds) {
  std::array<zmq::pollitem_t, 2> items{{{a.handle(), 0, ZMQ_POLLIN, 0}, {b.handle(), 0, ZMQ_POLLIN, 0}}};
  try {
    zmq::poll(items.data(), items.size(), std::chrono::milliseconds(milliseconds_of(seconds)));
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

/// Returns false if there is no (further) message.
bool take(zmq::socket_t& socket, zmq::message_t& message) {
  while (true) {
    try {
      return socket.recv(message, zmq::recv_flags::dontwait).has_value();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

std::string take_text(zmq::socket_t& socket) {
  zmq::message_t message;
  return take(socket, message) ? message.to_string() : "";
}

/// Returns false if the queue is full.
bool give(zmq::socket_t& socket, zmq::message_t message, bool more) {
  while (true) {
    try {
      return socket
          .send(message, more ? zmq::send_flags::dontwait | zmq::send_flags::sndmore : zmq::send_flags::dontwait)
          .has_value();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

/// Calls `send_piece(message)` for each piece, in order, until it returns false.
template <class SendPiece>
bool send_pieces(const std::string& bytes, const SendPiece& send_piece) {
  size_t sent = 0;
  do {
    const size_t count = std::min(bytes.size() - sent, size_t(kPiece));
    zmq::message_t piece(count + 1);
    char* data = piece.data<char>();
    data[0] = sent + count == bytes.size() ? kLast : kMore;
    std::memcpy(data + 1, bytes.data() + sent, count);
    if (!send_piece(std::move(piece))) return false;
    sent += count;
  } while (sent < bytes.size());
  return true;
}

/// One peer's message, assembled from its pieces.
class Assembly {
 public:
  enum class Now { open, whole, too_large };
  Now add(const zmq::message_t& piece, int64_t largest) {
    if (piece.size() == 0) return Now::too_large;  // an empty message is not a piece: not from a Trireme client
    if (int64_t(bytes_.size() + piece.size()) > largest + 1) return Now::too_large;
    bytes_.append(piece.data<char>() + 1, piece.size() - 1);
    return piece.data<char>()[0] == kLast ? Now::whole : Now::open;
  }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

void prepare(zmq::socket_t& socket, const WireHeartbeat& heartbeat) {
  socket.set(zmq::sockopt::linger, kLingerMilliseconds);
  socket.set(zmq::sockopt::sndhwm, 0);  // at most one message per peer waits to be sent: its answer
  socket.set(zmq::sockopt::maxmsgsize, kPiece + kOverhead);
  socket.set(zmq::sockopt::heartbeat_ivl, milliseconds_of(heartbeat.every));
  socket.set(zmq::sockopt::heartbeat_timeout, milliseconds_of(heartbeat.lost_after));
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeSeconds * 1000);
}

/// ZeroMQ binds to addresses and interfaces, not to host names.
std::string with_address(const std::string& listen) {
  constexpr std::string_view kName = "tcp://localhost:";
  return listen.starts_with(kName) ? "tcp://127.0.0.1:" + listen.substr(kName.size()) : listen;
}

bool is_ipv6(const std::string& endpoint) { return endpoint.find('[') != endpoint.npos; }

}  // namespace

struct ServerWire::Sockets {
  Sockets(const CurveKeys& keys, int64_t most) : client_public(keys.client_public), largest(most) {}

  /// Answers ZeroMQ's authentication requests: accepts peers that have the clients' key (rfc.zeromq.org/spec/27).
  void admit() {
    zmq::message_t version;
    while (take(zap, version)) {
      const std::string sequence = take_text(zap);
      std::vector<std::string> rest;  // domain, address, identity, mechanism, key
      while (zap.get(zmq::sockopt::rcvmore)) rest.push_back(take_text(zap));
      const bool knows = rest.size() == 5 && rest[3] == "CURVE" && rest[4] == client_public;
      give(zap, zmq::message_t(std::string_view("1.0")), true);
      give(zap, zmq::message_t(sequence), true);
      give(zap, zmq::message_t(std::string_view(knows ? "200" : "400")), true);
      give(zap, zmq::message_t(std::string_view(knows ? "OK" : "No access")), true);
      give(zap, zmq::message_t(std::string_view()), true);
      give(zap, zmq::message_t(std::string_view()), false);
    }
  }

  zmq::context_t context;
  zmq::socket_t zap{context, zmq::socket_type::rep};  ///< declared before the router, which uses it until it is closed
  zmq::socket_t router{context, zmq::socket_type::router};
  const std::string client_public;
  const int64_t largest;
  std::map<std::string, Assembly> open;  ///< incomplete messages by peer
  std::set<std::string> ignored;         ///< peers
};

ServerWire::ServerWire(const std::string& listen, const CurveKeys& keys, int64_t largest,
                       const WireHeartbeat& heartbeat)
    : sockets_(std::make_unique<Sockets>(keys, largest)) {
  zmq::socket_t& router = sockets_->router;
  sockets_->zap.bind(kZapEndpoint);
  prepare(router, heartbeat);
  // a whole message fits, so a peer that sends one can still receive heartbeats
  router.set(zmq::sockopt::rcvhwm, int(largest / kPiece) + kTurn);
  router.set(zmq::sockopt::router_mandatory, true);
  router.set(zmq::sockopt::curve_server, true);
  router.set(zmq::sockopt::curve_secretkey, std::string_view(keys.server_secret));
  router.set(zmq::sockopt::zap_domain, kDomain);
  router.set(zmq::sockopt::ipv6, is_ipv6(listen));
  try {
    router.bind(with_address(listen));
  } catch (const zmq::error_t& error) {
    fail_run({listen, "cannot listen there", error.what(), "choose another port or address"});
  }
  endpoint_ = router.get(zmq::sockopt::last_endpoint);
}

ServerWire::~ServerWire() = default;

std::vector<ServerWire::Arrival> ServerWire::receive(double seconds) {
  Sockets& s = *sockets_;
  wait_for_either(s.router, s.zap, seconds);
  s.admit();
  std::vector<Arrival> arrived;
  zmq::message_t peer_name, piece;
  for (int k = 0; k < kTurn && take(s.router, peer_name); ++k) {
    const std::string peer = peer_name.to_string();
    bool single = s.router.get(zmq::sockopt::rcvmore);
    if (single) take(s.router, piece);
    while (s.router.get(zmq::sockopt::rcvmore)) {  // Trireme's clients do not send multipart messages
      take(s.router, piece);
      single = false;
    }
    if (s.ignored.contains(peer)) continue;
    Assembly& assembly = s.open[peer];
    const auto now = single ? assembly.add(piece, s.largest) : Assembly::Now::too_large;
    if (now == Assembly::Now::open) continue;
    if (now == Assembly::Now::whole) {
      arrived.push_back({peer, assembly.take()});
      continue;
    }
    ignore(peer);
    arrived.push_back({peer, "", true});
  }
  return arrived;
}

bool ServerWire::send(const std::string& peer, const std::string& bytes) {
  zmq::socket_t& router = sockets_->router;
  try {
    return send_pieces(bytes, [&](zmq::message_t piece) {
      return give(router, zmq::message_t(peer), true) && give(router, std::move(piece), false);
    });
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) return false;
    throw;
  }
}

void ServerWire::ignore(const std::string& peer) {
  sockets_->open.erase(peer);
  sockets_->ignored.insert(peer);
}

struct ClientWire::Sockets {
  /// Processes the monitor's events.
  void watch() {
    zmq::message_t event, address;
    while (take(monitor, event)) {
      take(monitor, address);
      uint16_t what = 0;
      if (event.size() < sizeof what) continue;
      std::memcpy(&what, event.data(), sizeof what);
      if (what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED && state == State::connecting) state = State::connected;
      const bool fails = what == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || what == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                         what == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
      if (fails && state == State::connecting) state = State::refused;
      // after a loss, a new connection is a new client to the server: to continue, a client must join again
      if (what == ZMQ_EVENT_DISCONNECTED && state == State::connected) state = State::lost;
    }
  }

  explicit Sockets(int64_t most) : largest(most) {}

  zmq::context_t context;
  zmq::socket_t dealer{context, zmq::socket_type::dealer};
  zmq::socket_t monitor{context, zmq::socket_type::pair};
  const int64_t largest;
  State state = State::connecting;
  Assembly open;
};

ClientWire::ClientWire(const std::string& server, const CurveKeys& keys, int64_t largest,
                       const WireHeartbeat& heartbeat)
    : sockets_(std::make_unique<Sockets>(largest)) {
  Sockets& s = *sockets_;
  prepare(s.dealer, heartbeat);
  s.dealer.set(zmq::sockopt::handshake_ivl, kClientHandshakeSeconds * 1000);
  s.dealer.set(zmq::sockopt::rcvhwm, 0);  // the server sends only what was requested
  s.dealer.set(zmq::sockopt::curve_serverkey, std::string_view(keys.server_public));
  s.dealer.set(zmq::sockopt::curve_publickey, std::string_view(keys.client_public));
  s.dealer.set(zmq::sockopt::curve_secretkey, std::string_view(keys.client_secret));
  s.dealer.set(zmq::sockopt::ipv6, is_ipv6(server));
  const int failed = zmq_socket_monitor(s.dealer.handle(), kMonitorEndpoint,
                                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                            ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                            ZMQ_EVENT_DISCONNECTED);
  check_internal(failed == 0, "a socket can be watched");
  s.monitor.connect(kMonitorEndpoint);
  try {
    s.dealer.connect(server);
  } catch (const zmq::error_t& error) {
    fail_run({server, "cannot be reached", error.what(), "write tcp://HOST:PORT"});
  }
}

ClientWire::~ClientWire() {
  if (sockets_->state != State::connected) sockets_->dealer.set(zmq::sockopt::linger, 0);  // no server would receive it
}

ClientWire::State ClientWire::state() const { return sockets_->state; }

std::vector<std::string> ClientWire::receive(double seconds) {
  Sockets& s = *sockets_;
  wait_for_either(s.dealer, s.monitor, seconds);
  std::vector<std::string> arrived;
  zmq::message_t piece;
  while (take(s.dealer, piece)) {
    const auto now = s.open.add(piece, s.largest);
    if (now == Assembly::Now::too_large)
      fail_run({"message of the server", fmt::format("more than {} bytes", s.largest),
                "no message of this size was requested", ""});
    if (now == Assembly::Now::whole) arrived.push_back(s.open.take());
  }
  s.watch();
  return arrived;
}

void ClientWire::send(const std::string& bytes) {
  send_pieces(bytes, [&](zmq::message_t piece) {
    give(sockets_->dealer, std::move(piece), false);
    return true;
  });
}

}  // namespace trireme
