// Keys that the ranks of a run share while they look for each other and later, behind a token: rank 0 keeps them, the
// others ask over CurveZMQ (comm/rendezvous/wire.h). What c10d's TCPStore is, but that nobody without the token gets as
// far as a question.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous/token.h"

namespace trireme {

/// Seconds after which a rank that still waits for another says so.
inline constexpr double kSaysThatItWaits = 10;

/// Keeps the keys in memory, on a thread of its own, until it is destroyed.
class KeyServer {
 public:
  /// Listens at "tcp://HOST:PORT" from here on; a port of * is any free one. Errors (run): as ServerWire's.
  KeyServer(const std::string& listen, const CurveKeys& token_keys);
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;

  const std::string& endpoint() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Thread-safe. All calls wait for the server's answer. Errors (run): it is gone, does not take the token, or has not
/// answered in time.
class KeyClient {
 public:
  /// `patience`: seconds for the first connection, and for every answer.
  KeyClient(const std::string& server, const CurveKeys& token_keys, double patience);
  ~KeyClient();

  void set(const std::string& key, const std::string& value);
  std::optional<std::string> get(const std::string& key);
  /// Of a whole number, 0 where there is none; the sum.
  int64_t add(const std::string& key, int64_t by);
  /// Whether there was one.
  bool remove(const std::string& key);
  bool has(const std::vector<std::string>& keys);
  int64_t count();

 private:
  struct State;
  std::vector<std::string> ask(std::vector<std::string> question);
  const std::unique_ptr<State> state_;
};

}  // namespace trireme
