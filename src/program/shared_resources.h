// Simulated time of pieces of work that share cores and links. All rates of a pool change whenever one of its pieces
// starts or ends.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "program/demand.h"

namespace trireme {

/// - A link of capacity c gives each of k users c / k.
/// - Of C cores, k of them busy, each piece runs at 1 / (1 + (crowding - 1) (k - 1) / (C - 1)) of its speed. If k > C,
///   threads take turns and each runs at C / k of its speed on a full machine.
///
/// Work starts at the present time, which `next` advances. Not thread-safe.
class SharedResources {
 public:
  explicit SharedResources(std::vector<Pool> pools);

  double now() const { return now_; }
  /// Starts a piece of work. `next` returns `id` once, when the work has ended. Ids in use must be distinct and small
  /// (they index a vector).
  void begin(int id, double fixed, std::span<const Share> shares);
  /// Advances the time to the end of the next piece and returns its id. Pieces that end at the same time are returned
  /// in the order in which they started. -1: no piece is in progress.
  int next();

 private:
  struct Part {
    int id, users;
    double left, crowding, rate;
  };
  struct State {
    Pool pool;
    std::vector<Part> parts;
    double at = 0;        // the time at which `left` was computed
    int64_t version = 0;  // events with an older version are ignored
  };
  struct Work {
    std::vector<Share> shares;  // of work that is still in its fixed time
    int open = 0;               // number of parts that have not ended
  };
  struct Event {
    double time;
    int64_t order;
    int id;  // work whose fixed time has ended; -1: the event is of a pool
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
