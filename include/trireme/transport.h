// What a backend of processes brings: bytes between ranks and a few shared keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace trireme {

/// A send or receive under way. Keeps its tensor alive.
class Transfer {
 public:
  virtual ~Transfer() = default;

  /// True when done, false when cancelled. Throws std::exception when the connection failed or `limit` is over; the
  /// latter closes this rank's connections.
  virtual bool wait(std::chrono::milliseconds limit) = 0;

  /// Makes one wait return false: that under way, or else the next one. From any thread.
  virtual void cancel() = 0;
};

/// Thread-safe. Sends and receives of one pair and tag match in order; a receive must have room for what was sent. Data
/// moves when both sides have asked. Everything may throw std::exception.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<Transfer> send(const at::Tensor& contiguous, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(const at::Tensor& contiguous, int from, int tag) = 0;
};

/// Keys that all ranks see. Thread-safe; may block for as long as the rank that keeps them does not answer, and throw
/// std::exception.
class KeyStore {
 public:
  virtual ~KeyStore() = default;
  virtual void publish(const std::string& key, const std::string& value) = 0;  ///< the first value stays
  virtual void replace(const std::string& key, const std::string& value) = 0;  ///< the last value stays
  virtual std::optional<std::string> look_up(const std::string& key) = 0;
};

struct Connections {
  std::shared_ptr<KeyStore> keys;
  std::unique_ptr<Transport> transport;
  /// The keys are read and written at any moment by all ranks, over connections of their own: ranks show signs of life
  /// through them.
  bool keys_show_life = false;
  /// A rank notices when another one closes its connections. Else the keys outlive every rank's use of them, and who
  /// leaves says so there.
  bool ends_are_seen = true;
};

}  // namespace trireme
