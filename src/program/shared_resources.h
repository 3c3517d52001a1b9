// Time that passes while pieces of work share cores and links: each piece gets what the others leave it, and all rates
// change whenever one begins or ends.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "program/demand.h"

namespace trireme {

/// - A link of capacity c gives each of k users c / k.
/// - Of C cores, k of them busy, each piece runs at 1 / (1 + (crowding - 1) (k - 1) / (C - 1)) of its speed, and at C /
/// k of that of a
///   full machine where k > C: threads take turns.
///
/// Work is begun at the present time, which `next` moves on. Used by one thread.
class SharedResources {
 public:
  explicit SharedResources(std::vector<Pool> pools);

  double now() const { return now_; }
  /// Begins a piece of work; `next` will give `id` back once, when it has ended. Ids in use must differ, and be small.
  void begin(int id, double fixed, std::span<const Share> shares);
  /// The piece that ends next (those that end at once in the order in which they were begun), and moves the time there;
  /// -1: none is under way.
  int next();

 private:
  struct Part {
    int id, users;
    double left, crowding, rate;
  };
  struct State {
    Pool pool;
    std::vector<Part> parts;
    double at = 0;        // `left` is as it was then
    int64_t version = 0;  // events of older ones mean nothing
  };
  struct Work {
    std::vector<Share> shares;  // not begun yet
    int open = 0;               // parts that have not ended
  };
  struct Event {
    double time;
    int64_t order;
    int id;  // of work whose fixed time is over; -1: of a pool
    int pool;
    int64_t version;
    bool operator>(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };

  void open_shares(int id);
  void settle(State& state);
  void schedule(int pool);

  double now_ = 0;
  int64_t order_ = 0;
  std::vector<State> pools_;
  std::vector<Work> work_;  // by id
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::queue<int> ended_;
};

}  // namespace trireme
