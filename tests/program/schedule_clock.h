// Runs a pipeline on a clock: the times of every worker's tasks under a schedule, limited only by the order of tasks
// and by what they need from each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "trireme/schedule.h"

namespace trireme {

/// One task of a worker in one batch.
struct Deed {
  Task task;
  int batch = 0;
};

inline std::vector<Deed> deeds_of(const Schedule& schedule, const PipelinePlace& place, int steps) {
  std::vector<Deed> deeds;
  const std::vector<Task> tasks = schedule.tasks(place);
  for (int step = 0; step < steps; ++step)
    for (const Task& task : tasks)
      if (step >= task.lag) deeds.push_back({task, step - task.lag});
  return deeds;
}

/// Times of a stage in any unit.
struct StageTime {
  int64_t forward = 1, backward_input = 1, backward_weight = 1;  ///< a whole backward takes both
  int64_t of(TaskKind kind) const {
    switch (kind) {
      case TaskKind::forward: return forward;
      case TaskKind::backward: return backward_input + backward_weight;
      case TaskKind::backward_input: return backward_input;
      case TaskKind::backward_weight: return backward_weight;
      case TaskKind::update: return 0;
    }
    return 0;
  }
  int64_t all() const { return forward + backward_input + backward_weight; }
};

struct TimedDeed {
  Deed deed;
  int64_t start = 0, end = 0;
};

/// Runs all workers: a task starts when its worker is free and its inputs are ready; messages take no time. `times`: by
/// stage; the last one holds for all following stages.
class Clock {
 public:
  Clock(const Schedule& schedule, int depth, int chunks, int micro_batches, int steps, std::vector<StageTime> times)
      : schedule_(schedule), depth_(depth), stages_(depth * chunks), times_(std::move(times)), events_(size_t(depth)) {
    times_.resize(size_t(stages_), times_.back());
    for (int s = 0; s < depth; ++s) lists_.push_back(deeds_of(schedule, {s, depth, chunks, micro_batches}, steps));
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < depth; ++s)
        while (do_next(s)) moved = true;
    }
  }

  /// True if a task waits forever.
  bool stuck() const {
    for (int s = 0; s < depth_; ++s)
      if (events_[size_t(s)].size() < lists_[size_t(s)].size()) return true;
    return false;
  }
  const std::vector<TimedDeed>& events(int position) const { return events_[size_t(position)]; }
  /// The end of the last task of a batch.
  int64_t time_of(int batch) const {
    int64_t latest = 0;
    for (const auto& events : events_)
      for (const TimedDeed& event : events)
        if (event.deed.batch == batch) latest = std::max(latest, event.end);
    return latest;
  }
  /// The end of the last task.
  int64_t time() const {
    int64_t latest = 0;
    for (const auto& events : events_) latest = std::max(latest, events.back().end);
    return latest;
  }

 private:
  using Key = std::tuple<TaskKind, int, int, int>;  // batch, micro-batch, stage

  std::vector<Key> needs(const Deed& deed, int stage) const {
    const TaskKind kind = deed.task.kind;
    const bool backward = kind == TaskKind::backward || kind == TaskKind::backward_input;
    const auto key = [&](TaskKind of, int at) { return Key{of, deed.batch, deed.task.micro_batch, at}; };
    std::vector<Key> keys;
    if (kind == TaskKind::forward && stage > 0) keys.push_back(key(kind, stage - 1));
    if (backward) keys.push_back(key(TaskKind::forward, stage));
    if (backward && stage + 1 < stages_) keys.push_back(key(kind, stage + 1));
    if (kind == TaskKind::backward_weight) keys.push_back(key(TaskKind::backward_input, stage));
    return keys;
  }

  bool do_next(int position) {
    auto& events = events_[size_t(position)];
    if (events.size() == lists_[size_t(position)].size()) return false;
    const Deed& deed = lists_[size_t(position)][events.size()];
    const int stage = schedule_.stage_of(deed.task.chunk, position, depth_);
    int64_t start = events.empty() ? 0 : events.back().end;
    for (const Key& key : needs(deed, stage)) {
      const auto ready = ready_.find(key);
      if (ready == ready_.end()) return false;
      start = std::max(start, ready->second);
    }
    const int64_t end = start + times_[size_t(stage)].of(deed.task.kind);
    events.push_back({deed, start, end});
    ready_[{deed.task.kind, deed.batch, deed.task.micro_batch, stage}] = end;
    return true;
  }

  Schedule schedule_;
  int depth_, stages_;
  std::vector<StageTime> times_;
  std::vector<std::vector<Deed>> lists_;
  std::vector<std::vector<TimedDeed>> events_;  ///< by position
  std::map<Key, int64_t> ready_;
};

}  // namespace trireme
