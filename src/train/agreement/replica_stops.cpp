#include "train/agreement/replica_stops.h"

#include <algorithm>

namespace trireme {
namespace {

// A worker may be one step ahead of what its leader has noted, and asks after the step whether it was the last.
constexpr int64_t kStepsAhead = 2;

}  // namespace

ReplicaStops::ReplicaStops(UpdatePolicy& update, const ReplicaStopOptions& options, int64_t samples)
    : update_(update), options_(options), by_samples_(update.stops() == UpdatePolicy::Stops::held || !options.equal_steps) {
  next_samples_ = next_after(samples);
}

int64_t ReplicaStops::next_after(int64_t samples) const {
  const int64_t every = options_.checkpoint_samples;
  return every > 0 ? (samples / every + 1) * every : 0;
}

void ReplicaStops::note(int64_t steps, int64_t samples) {
  std::lock_guard lock(mutex_);
  most_steps_ = std::max(most_steps_, steps);
  if (!by_samples_ || !writes() || samples < next_samples_) return;
  next_samples_ = next_after(samples);
  update_.hold();
  is_wanted_ = true;
}

bool ReplicaStops::end(bool decides) {
  if (!options_.can_end || (by_samples_ && !decides)) return false;
  std::lock_guard lock(mutex_);
  if (ends_at_exchanges()) {
    ends_ = true;
    return true;
  }
  if (!by_samples_) {
    last_step_ = std::min<int64_t>(last_step_, std::max(most_steps_ + kStepsAhead, update_.steps_before_stops()));
    return true;
  }
  ends_ = true;
  update_.hold();
  is_wanted_ = true;
  return true;
}

bool ReplicaStops::agrees_to_end(Hub& hub) {
  const Hub::Unmetered quiet(hub);
  has_ended_ = hub.total(ends_ ? 1 : 0) > 0;
  return has_ended_;
}

bool ReplicaStops::come(Hub& hub, ReplicaPolicy& policy, bool is_done) {
  const Hub::Unmetered quiet(hub);
  if (!is_done) policy.release_waiting();
  return int(hub.total(is_done ? 1 : 0)) == options_.replicas;
}

bool ReplicaStops::part(Hub& hub) {
  const Hub::Unmetered quiet(hub);
  bool ends = false;  // as the first replica says
  if (hub.replica() == 0) {
    std::lock_guard lock(mutex_);
    ends = ends_;
    if (!ends) update_.go_on();
    is_wanted_ = ends;
  }
  has_ended_ = hub.total(ends ? 1 : 0) > 0;
  return has_ended_;
}

}  // namespace trireme
