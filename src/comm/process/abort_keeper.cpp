#include "comm/process/abort_keeper.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAbortInterval{100};
constexpr milliseconds kKeyPatience{500};  // for keys that do not answer

const char* const kAbortKey = "trireme/abort";

}  // namespace

struct AbortKeeper::State {
  Mutex mutex;
  ConditionVariable changed;
  // empty once stopped; called with the mutex held
  std::function<void(const std::string&)> on_abort TRIREME_GUARDED_BY(mutex);
  std::optional<std::string> proposal TRIREME_GUARDED_BY(mutex), reason TRIREME_GUARDED_BY(mutex);
  uint64_t answers TRIREME_GUARDED_BY(mutex) = 0;
  bool stopped TRIREME_GUARDED_BY(mutex) = false;
  bool ended TRIREME_GUARDED_BY(mutex) = false;  // true after the thread has ended

  // used by the thread alone, with the mutex free
  std::shared_ptr<KeyStore> keys;
  std::string gone;
  std::function<void(KeyStore&)> on_look;
};

AbortKeeper::AbortKeeper(std::shared_ptr<KeyStore> keys, std::string gone,
                         std::function<void(const std::string&)> on_abort, std::function<void(KeyStore&)> on_look)
    : state_(std::make_shared<State>()) {
  state_->keys = std::move(keys);
  state_->gone = std::move(gone);
  state_->on_abort = std::move(on_abort);
  state_->on_look = std::move(on_look);
  std::thread([state = state_] { run(state); }).detach();
}

AbortKeeper::~AbortKeeper() { stop(); }

void AbortKeeper::run(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mutex);
  while (!state->stopped && !state->reason) {
    const std::optional<std::string> proposal = state->proposal;
    std::optional<std::string> reason;
    lock.unlock();
    try {
      if (proposal) state->keys->publish(kAbortKey, *proposal);
      reason = state->keys->look_up(kAbortKey);
      if (!reason) state->on_look(*state->keys);
    } catch (const std::exception& error) {
      reason = state->gone + ": " + first_line(error);
    }
    lock.lock();
    ++state->answers;
    if (!reason) reason = proposal;  // another rank has claimed the key and is about to write it
    state->reason = reason;
    if (reason && state->on_abort) state->on_abort(*reason);
    state->changed.notify_all();
    if (!reason)
      state->changed.wait_for(state->mutex, kAbortInterval,
                              [&]() TRIREME_REQUIRES(state->mutex) { return state->stopped || state->proposal; });
  }
  state->keys.reset();
  state->ended = true;
  state->changed.notify_all();
}

std::string AbortKeeper::propose(const std::string& reason) {
  MutexLock lock(state_->mutex);
  if (!state_->proposal) state_->proposal = reason;
  state_->changed.notify_all();
  state_->changed.wait_for(state_->mutex, kKeyPatience,
                           [&]() TRIREME_REQUIRES(state_->mutex) { return state_->reason || state_->ended; });
  return state_->reason.value_or(reason);
}

uint64_t AbortKeeper::answers() const {
  MutexLock lock(state_->mutex);
  return state_->answers;
}

void AbortKeeper::stop() {
  MutexLock lock(state_->mutex);
  state_->stopped = true;
  state_->on_abort = nullptr;
  state_->changed.notify_all();
  state_->changed.wait_for(state_->mutex, kKeyPatience,
                           [&]() TRIREME_REQUIRES(state_->mutex) { return state_->ended; });
}

}  // namespace trireme
