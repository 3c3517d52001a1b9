#include "train/state_handover.h"

#include <chrono>
#include <utility>

namespace trireme {
namespace {

constexpr auto kHandoverPoll = std::chrono::milliseconds(10);

}  // namespace

TrainingState StateHandover::wait_for_turn(const std::function<bool()>& gives_up) {
  std::unique_lock lock(mutex_);
  while (under_way_ && !gives_up()) changed_.wait_for(lock, kHandoverPoll);
  return std::exchange(used_, {});
}

bool StateHandover::is_free() const {
  std::lock_guard lock(mutex_);
  return !under_way_;
}

TrainingState StateHandover::take_used() {
  std::lock_guard lock(mutex_);
  return std::exchange(used_, {});
}

void StateHandover::put(GatheredState gathered) {
  std::lock_guard lock(mutex_);
  under_way_ = true;
  gathered_ = std::move(gathered);
}

std::optional<GatheredState> StateHandover::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(gathered_, std::nullopt);
}

void StateHandover::give_back(TrainingState used) {
  std::lock_guard lock(mutex_);
  under_way_ = false;
  used_ = std::move(used);
  changed_.notify_all();
}

}  // namespace trireme
