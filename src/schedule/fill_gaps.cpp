#include "schedule/fill_gaps.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

struct Position {
  std::vector<Task> tasks;
  std::vector<int64_t> forward_ends, input_ends;  ///< by micro-batch
  int weights = 0;                                ///< number of backward_weight done
  int64_t now = 0, waited = 0;
  int forwards() const { return int(forward_ends.size()); }
  int inputs() const { return int(input_ends.size()); }
  bool has_weights() const { return weights < inputs(); }
};

/// The tasks of all positions, on a clock.
class Search {
 public:
  Search(int depth, int micro_batches, const FillTimes& times)
      : micro_batches_(micro_batches), times_(times), positions_(size_t(depth)) {
    begin();
    for (int k = 0; k < micro_batches; ++k) {
      for (int s = 0; s < depth && k > 0; ++s)
        if (at(s).forwards() < micro_batches) add_with_gap(s, TaskKind::forward);
      for (int s = depth - 1; s >= 0; --s) add_with_gap(s, TaskKind::backward_input);
    }
    for (int s = 0; s < depth; ++s)
      while (at(s).weights < micro_batches) add(s, TaskKind::backward_weight);
  }

  std::vector<Task> take(int position) { return std::move(at(position).tasks); }

 private:
  Position& at(int position) { return positions_[size_t(position)]; }
  int last() const { return int(positions_.size()) - 1; }

  int64_t held(int s) {
    const Position& own = at(s);
    return times_.whole * (own.forwards() - own.inputs()) + times_.kept * (own.inputs() - own.weights);
  }

  /// The time at which the input of the position's next task of this kind is there.
  int64_t arrival(int s, TaskKind kind) {
    if (kind == TaskKind::forward)
      return s == 0 ? 0 : at(s - 1).forward_ends[size_t(at(s).forwards())] + times_.message;
    const auto next = size_t(at(s).inputs());
    return s == last() ? at(s).forward_ends[next] : at(s + 1).input_ends[next] + times_.message;
  }

  void add(int s, TaskKind kind) {
    Position& own = at(s);
    if (kind == TaskKind::backward_weight) {
      own.tasks.push_back({kind, 0, own.weights++});
      own.now += times_.backward_weight;
      return;
    }
    const bool forward = kind == TaskKind::forward;
    const int64_t begin = std::max(own.now, arrival(s, kind));
    if (own.forwards() > 0) own.waited += begin - own.now;
    own.tasks.push_back({kind, 0, forward ? own.forwards() : own.inputs()});
    own.now = begin + (forward ? times_.forward : times_.backward_input);
    (forward ? own.forward_ends : own.input_ends).push_back(own.now);
  }

  /// The forwards before the first backward.
  void begin() {
    for (int s = 0; s <= last(); ++s) add(s, TaskKind::forward);
    std::vector<int> more(positions_.size(), 0);
    int64_t back = at(last()).now + times_.backward_input;  // end of the first backward at the position behind
    for (int s = last() - 1; s >= 0; --s) {
      int64_t now = at(s).now;
      int& count = more[size_t(s)];
      const int64_t next = back + times_.message;
      while (1 + count < micro_batches_ && (count + 2) * times_.whole <= times_.most && now + times_.forward <= next) {
        ++count;
        now += times_.forward;
      }
      back = std::max(now, next) + times_.backward_input;
    }
    for (int s = 1; s <= last(); ++s) {
      int& count = more[size_t(s)];
      if (1 + count < micro_batches_) count = std::max(0, std::min(count, more[size_t(s) - 1] - 1));
    }
    for (int s = 0; s <= last(); ++s)
      for (int k = 0; k < more[size_t(s)]; ++k) add(s, TaskKind::forward);
  }

  /// Adds the task, and before it what fits into the gap.
  void add_with_gap(int s, TaskKind kind) {
    Position& own = at(s);
    while (kind == TaskKind::forward && own.has_weights() && held(s) + times_.whole > times_.most)
      add(s, TaskKind::backward_weight);
    const int64_t next = arrival(s, kind);
    while (own.has_weights() && own.now + times_.backward_weight <= next) add(s, TaskKind::backward_weight);
    if (own.has_weights() && next > own.now && own.waited + next - own.now > longest_wait())
      add(s, TaskKind::backward_weight);
    add(s, kind);
  }

  int64_t longest_wait() const {
    int64_t longest = 0;
    for (const Position& position : positions_) longest = std::max(longest, position.waited);
    return longest;
  }

  const int micro_batches_;
  const FillTimes times_;
  std::vector<Position> positions_;
};

/// One search gives the tasks of all positions, which are asked for one after the other.
struct Searched {
  int depth = 0, micro_batches = 0;
  FillTimes times;
  std::vector<std::vector<Task>> tasks;  ///< by position
};

}  // namespace

std::vector<Task> fill_gaps(const PipelinePlace& place, const FillTimes& times) {
  thread_local Searched last;
  if (last.depth != place.depth || last.micro_batches != place.micro_batches || !(last.times == times)) {
    Search search(place.depth, place.micro_batches, times);
    last = {place.depth, place.micro_batches, times, {}};
    for (int s = 0; s < place.depth; ++s) last.tasks.push_back(search.take(s));
  }
  return last.tasks[size_t(place.position)];
}

}  // namespace trireme
