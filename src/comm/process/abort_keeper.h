// How all ranks agree on the reason of an abort: through a key that all of them read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trireme/backend.h"

namespace trireme {

/// A thread, the only one that communicates with the shared keys. So no other thread hangs when the rank that hosts the
/// keys is frozen; a hanging keeper thread is left behind at the end. Thread-safe.
class AbortKeeper {
 public:
  /// `on_abort` is called once, on the keeper's thread, with the reason: the first one that any rank gave, or that the
  /// keys are gone. `on_look` is called with the keys several times a second, on the same thread; an exception from it
  /// means that the keys are gone.
  AbortKeeper(std::shared_ptr<KeyStore> keys, std::string gone, std::function<void(const std::string&)> on_abort,
              std::function<void(KeyStore&)> on_look);
  ~AbortKeeper();
  AbortKeeper(const AbortKeeper&) = delete;
  AbortKeeper& operator=(const AbortKeeper&) = delete;

  /// Makes `reason` the world's reason if it is the first. Returns the world's reason, or `reason` if the keys do not
  /// answer within 0.5 s.
  std::string propose(const std::string& reason);

  /// Returns how often the keys have answered. The number does not change while they do not answer.
  uint64_t answers() const;

  /// After this call `on_abort` is not called. `on_look` is not called either, unless the keys hang in a call of it.
  void stop();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  const std::shared_ptr<State> state_;
};

}  // namespace trireme
