#include "train/state_handover.h"

#include <chrono>
#include <utility>

namespace trireme {
namespace {

constexpr auto kHandoverPoll = std::chrono::milliseconds(10);

}  // namespace

TrainingState StateHandover::wait_for_turn(const std::function<bool()>& gives_up) {
  MutexLock lock(mutex_);
  while (under_way_ && !gives_up()) changed_.wait_for(mutex_, kHandoverPoll);
  return std::exchange(used_, {});
}

bool StateHandover::is_free() const {
  MutexLock lock(mutex_);
  return !under_way_;
}

TrainingState StateHandover::take_used() {
  MutexLock lock(mutex_);
  return std::exchange(used_, {});
}

void StateHandover::put(GatheredState gathered) {
  MutexLock lock(mutex_);
  under_way_ = true;
  gathered_ = std::move(gathered);
}

std::optional<GatheredState> StateHandover::take() {
  MutexLock lock(mutex_);
  return std::exchange(gathered_, std::nullopt);
}

void StateHandover::give_back(TrainingState used) {
  MutexLock lock(mutex_);
  under_way_ = false;
  used_ = std::move(used);
  changed_.notify_all();
}

}  // namespace trireme
