// What a backend of processes provides: bytes between ranks and a few shared keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace trireme {

/// A send or receive in progress. Keeps its tensor alive.
class Transfer {
 public:
  virtual ~Transfer() = default;

  /// Returns true when done, false when cancelled. Throws std::exception if the connection failed or `limit` has
  /// passed; the latter closes this rank's connections.
  virtual bool wait(std::chrono::milliseconds limit) = 0;

  /// Makes one wait return false: the current one, or else the next one. Thread-safe.
  virtual void cancel() = 0;
};

/// Thread-safe. Sends and receives of one pair and tag match in order. A receive must have room for what was sent.
/// A send may wait until the receiver has called. Every function may throw std::exception.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<Transfer> send(const at::Tensor& contiguous, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(const at::Tensor& contiguous, int from, int tag) = 0;
};

/// Keys that all ranks see. Thread-safe. A call may block as long as the rank that hosts the keys does not answer, and
/// may throw std::exception.
class KeyStore {
 public:
  virtual ~KeyStore() = default;
  virtual void publish(const std::string& key, const std::string& value) = 0;  ///< the first value remains
  virtual void replace(const std::string& key, const std::string& value) = 0;  ///< the last value remains
  virtual std::optional<std::string> look_up(const std::string& key) = 0;
};

struct Connections {
  std::shared_ptr<KeyStore> keys;
  std::unique_ptr<Transport> transport;
  /// True if all ranks can read and write the keys at any time over separate connections. Ranks then show signs of life
  /// through them.
  bool keys_show_life = false;
  /// True if a rank notices when another rank closes its connections. Otherwise the keys exist longer than any rank
  /// uses them, and a rank that leaves says so there.
  bool ends_are_seen = true;
};

}  // namespace trireme
