// Keys that the ranks of a run share during the rendezvous and later, protected by a token. Rank 0 hosts them; the
// other ranks access them over CurveZMQ (comm/rendezvous/wire.h). Like c10d's TCPStore, except that a process without
// the token cannot even send a request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous/token.h"

namespace trireme {

/// Seconds after which a rank logs that it is still waiting for another rank.
inline constexpr double kReportsWaitAfter = 10;

/// Keeps the keys in memory, and serves them on a thread of its own until it is destroyed.
class KeyServer {
 public:
  /// Listens at "tcp://HOST:PORT"; port * means any free one. Run errors: as ServerWire's.
  KeyServer(const std::string& listen, const CurveKeys& token_keys);
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;

  const std::string& endpoint() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Thread-safe. Every call waits for the server's answer. Run errors: the server is gone, does not accept the token, or
/// has not answered in time.
class KeyClient {
 public:
  /// `patience`: seconds to wait for the first connection, and for every answer.
  KeyClient(const std::string& server, const CurveKeys& token_keys, double patience);
  ~KeyClient();

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key);
  /// Adds `by` to a whole number (0 if absent). Returns the sum.
  int64_t add(const std::string& key, int64_t by);
  /// Returns true if the key existed.
  bool remove(const std::string& key);
  bool has(const std::vector<std::string>& keys);
  int64_t count();

 private:
  struct State;
  std::vector<std::string> ask(std::vector<std::string> request);
  const std::unique_ptr<State> state_;
};

}  // namespace trireme
