#include "train/agreement/replica_stops.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

// A worker may be one step ahead of what its leader has noted. After each step it checks whether the step was the last.
constexpr int64_t kStepsAhead = 2;

bool is_by_samples(const UpdatePolicy& update, const ReplicaStopOptions& options) {
  return update.stops() != UpdatePolicy::Stops::together || !options.equal_steps;
}

}  // namespace

ReplicaStops::ReplicaStops(UpdatePolicy& update, const ReplicaStopOptions& options, int64_t samples)
    : update_(update), options_(options), by_samples_(is_by_samples(update, options)), steps_(options.begun) {
  steps_.resize(size_t(options.replicas));
  MutexLock lock(mutex_);
  next_samples_ = next_after(samples);
  last_point_ = curve_points();
}

int64_t ReplicaStops::next_after(int64_t samples) const {
  const int64_t every = options_.checkpoint_samples;
  return every > 0 ? (samples / every + 1) * every : 0;
}

/// Returns the points of the run's curve so far: one for as many steps of any replicas as there are replicas.
int64_t ReplicaStops::curve_points() const {
  return std::accumulate(steps_.begin(), steps_.end(), int64_t(0)) / options_.replicas;
}

/// Requests a stop if it is possible now. Replicas that still wait for another replica's first steps cannot be stopped,
/// because they are not between two steps of their own.
void ReplicaStops::want_if_possible() {
  const bool waits =
      update_.stops() == UpdatePolicy::Stops::anywhere &&
      std::ranges::any_of(steps_, [this](int64_t steps) { return steps < update_.steps_before_stops(); });
  // A checkpoint belongs to a point of the curve. Where few replicas work at a time, it may be due before the next one.
  const bool has_point = ends_ || curve_points() > last_point_;
  if (!wishes_ || waits || !has_point) return;
  wishes_ = false;
  update_.hold();
  wanted_ = made_ + 1;
}

void ReplicaStops::note(int replica, int64_t steps, int64_t samples) {
  MutexLock lock(mutex_);
  steps_[size_t(replica)] = steps;
  if (!by_samples_) return;
  if (writes() && samples >= next_samples_) {
    next_samples_ = next_after(samples);
    wishes_ = true;
  }
  want_if_possible();
}

bool ReplicaStops::end(bool decides) {
  if (!options_.can_end) return false;
  if (!decides) {
    if (!has_told_.exchange(true)) must_tell_ = true;
    return false;
  }
  MutexLock lock(mutex_);
  if (ends_at_exchanges()) {
    ends_ = true;
    return true;
  }
  if (!by_samples_) {
    const int64_t most = *std::ranges::max_element(steps_);
    last_step_ = std::min<int64_t>(last_step_, std::max(most + kStepsAhead, update_.steps_before_stops()));
    return true;
  }
  ends_ = wishes_ = true;
  want_if_possible();
  return true;
}

bool ReplicaStops::takes_request_to_tell() {
  if (!must_tell_.exchange(false)) return false;
  if (ends_at_exchanges()) ends_ = true;  // the next exchange may come before the report is read
  return true;
}

bool ReplicaStops::agrees_to_end(Hub& hub) {
  const Hub::Unmetered quiet(hub);
  has_ended_ = hub.total(ends_ ? 1 : 0) > 0;
  return has_ended_;
}

bool ReplicaStops::come(Hub& hub, ReplicaPolicy& policy, bool is_done) {
  const Hub::Unmetered quiet(hub);
  hub.confirm_reports();  // the state to be written contains all steps that were made
  if (!is_done) policy.release_waiting();
  const bool all_done = int(hub.total(is_done ? 1 : 0)) == options_.replicas;
  if (hub.replica() == 0 || !options_.all_here) {  // later wishes are for the next stop
    MutexLock lock(mutex_);
    ++made_;
    wishes_ = false;
    last_point_ = curve_points();
  }
  return all_done;
}

bool ReplicaStops::part(Hub& hub) {
  const Hub::Unmetered quiet(hub);
  bool ends = false;  // decided by the first replica
  if (hub.replica() == 0) {
    MutexLock lock(mutex_);
    ends = ends_;
    if (!ends && wanted_ <= made_) update_.go_on();
  }
  has_ended_ = hub.total(ends ? 1 : 0) > 0;
  return has_ended_;
}

}  // namespace trireme
