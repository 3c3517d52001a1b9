// How all ranks agree on why the world was aborted: a key that all of them look at.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trireme/transport.h"

namespace trireme {

/// A thread that alone communicates with the shared keys, so that nobody hangs with them when the rank that keeps them
/// is frozen: such a thread is left behind at the end. Thread-safe.
class AbortKeeper {
 public:
  /// `on_abort` gets the reason once, on the keeper's thread: the first that any rank gave, or that the keys are gone.
  /// `on_look` is called with the keys several times a second, on the same thread; what it throws means that the keys
  /// are gone.
  AbortKeeper(std::shared_ptr<KeyStore> keys, std::string gone, std::function<void(const std::string&)> on_abort,
              std::function<void(KeyStore&)> on_look);
  ~AbortKeeper();
  AbortKeeper(const AbortKeeper&) = delete;
  AbortKeeper& operator=(const AbortKeeper&) = delete;

  /// Makes `reason` the world's if it is the first. Returns the reason that is, or `reason` if the keys do not answer
  /// soon.
  std::string propose(const std::string& reason);

  /// How often the keys have answered: it stays when they do not.
  uint64_t answers() const;

  /// No `on_abort` from here on, and no `on_look` unless the keys hang in one.
  void stop();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace trireme
