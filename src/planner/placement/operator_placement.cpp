#include "planner/placement/operator_placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace trireme {
namespace {

using Item = OperatorProblem::Item;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// If a part has at most this many placements, all are tried; otherwise at most this many changes are tried.
constexpr int64_t kMostTried = 1 << 13;
constexpr int kRestarts = 12;
constexpr int kPolishes = 5;

/// The items from `begin` to `end`, exclusive. The item before them, if there is one, is their only input from outside;
/// the last one is their only output.
struct Part {
  int begin = 0, end = 0;
};

/// The connections of the devices. A message occupies the sender's outgoing and the receiver's incoming connection,
/// after all earlier messages on either of them.
class ConnectionTimes {
 public:
  explicit ConnectionTimes(const OperatorProblem& problem)
      : problem_(problem), out_(size_t(problem.devices)), in_(size_t(problem.devices)) {}

  /// Returns the time at which a message arrives. `ready`: the time from which it can be sent.
  double send(int from, int to, double bytes, double ready) {
    const double begin = std::max({ready, out_[size_t(from)], in_[size_t(to)]});
    const double end = begin + (problem_.bandwidth > 0 ? bytes / problem_.bandwidth : 0);
    out_[size_t(from)] = in_[size_t(to)] = end;
    return end + problem_.latency;
  }

 private:
  const OperatorProblem& problem_;
  std::vector<double> out_, in_;  ///< by device: the time from which the connection is free
};

class Searcher {
 public:
  explicit Searcher(const OperatorProblem& problem) : problem_(problem), consumers_(problem.items.size()) {
    for (int i = 0; i < count(); ++i)
      for (const int input : item(i).inputs) consumers_[size_t(input)].push_back(i);
    note_cuts();
  }

  double seconds(const std::vector<int>& device_of, const Part& part) const {
    return forward(device_of, part) + backward(device_of, part);
  }
  double seconds(const std::vector<int>& device_of) const { return seconds(device_of, {0, count()}); }

  OperatorPlacement find();

 private:
  int count() const { return int(problem_.items.size()); }
  const Item& item(int i) const { return problem_.items[size_t(i)]; }

  void note_cuts();
  double forward(const std::vector<int>& device_of, const Part& part) const;
  double backward(const std::vector<int>& device_of, const Part& part) const;
  double bound(const Part& part) const;
  std::vector<std::vector<int>> groups_of(const Part& part) const;
  void solve(const Part& part, std::vector<int>& device_of) const;
  void try_all(const Part& part, const std::vector<std::vector<int>>& groups, std::vector<int>& device_of) const;
  void climb(const Part& part, const std::vector<std::vector<int>>& groups, std::vector<int>& device_of) const;
  void descend(const Part& part, const std::vector<std::vector<int>>& groups, std::vector<int>& device_of,
               int64_t& tries) const;
  void polish(std::vector<int>& device_of) const;

  const OperatorProblem& problem_;
  std::vector<std::vector<int>> consumers_;  ///< by item, ascending
  std::vector<bool> reaches_;                ///< by item: the loss depends on it
  std::vector<Part> parts_;
};

/// Cuts the model into parts. A part ends with item i if later items read no other item of 0 to i.
void Searcher::note_cuts() {
  reaches_.assign(problem_.items.size(), false);
  reaches_.back() = true;
  for (int i = count() - 1; i >= 0; --i)
    if (reaches_[size_t(i)])
      for (const int input : item(i).inputs) reaches_[size_t(input)] = true;
  int begin = 0, last_reader = 0;  // greatest index of a reader of the items before i
  bool has_input = false;          // an item after i reads the model's input data
  std::vector<bool> later(problem_.items.size(), false);
  for (int i = count() - 1; i >= 0; --i) {
    later[size_t(i)] = has_input;
    has_input = has_input || (item(i).inputs.empty() && reaches_[size_t(i)]);
  }
  for (int i = 0; i < count(); ++i) {
    const bool is_cut = last_reader <= i && !later[size_t(i)] && reaches_[size_t(i)];
    if (is_cut || i + 1 == count()) {
      parts_.push_back({begin, i + 1});
      begin = i + 1;
    }
    for (const int reader : consumers_[size_t(i)])
      if (reaches_[size_t(reader)]) last_reader = std::max(last_reader, reader);
  }
}

/// Returns the seconds from the moment when the output of the item before the part is available until all items of the
/// part have been computed.
double Searcher::forward(const std::vector<int>& device_of, const Part& part) const {
  ConnectionTimes connections(problem_);
  std::vector<double> free(size_t(problem_.devices));
  std::vector<double> there(problem_.items.size() * size_t(problem_.devices));  // by item and device
  const auto arrival = [&](int i, int device) -> double& {
    return there[size_t(i) * size_t(problem_.devices) + size_t(device)];
  };
  const auto hand_out = [&](int i, double ready) {
    const int own = device_of[size_t(i)];
    std::vector<bool> sent(size_t(problem_.devices));
    sent[size_t(own)] = true;
    arrival(i, own) = ready;
    for (const int reader : consumers_[size_t(i)]) {
      const int device = reader < part.end ? device_of[size_t(reader)] : own;
      if (sent[size_t(device)]) continue;
      sent[size_t(device)] = true;
      arrival(i, device) = connections.send(own, device, item(i).bytes, ready);
    }
  };
  if (part.begin > 0) hand_out(part.begin - 1, 0);
  for (int i = part.begin; i < part.end; ++i) {
    const int own = device_of[size_t(i)];
    double begin = free[size_t(own)];
    for (const int input : item(i).inputs) begin = std::max(begin, arrival(input, own));
    hand_out(i, free[size_t(own)] = begin + item(i).forward);
  }
  return *std::max_element(free.begin(), free.end());
}

/// Returns the seconds from the moment when the gradient of the part's last item is available until the gradient of the
/// item before the part is complete.
double Searcher::backward(const std::vector<int>& device_of, const Part& part) const {
  ConnectionTimes connections(problem_);
  std::vector<double> free(size_t(problem_.devices)), ready(problem_.items.size());
  double end = 0;
  for (int i = part.end - 1; i >= part.begin; --i) {
    const int own = device_of[size_t(i)];
    const double done = free[size_t(own)] = std::max(free[size_t(own)], ready[size_t(i)]) + item(i).backward;
    end = std::max(end, done);
    for (const int input : item(i).inputs) {
      const auto& readers = consumers_[size_t(input)];
      const auto last =
          std::find_if(readers.begin(), readers.end(), [&](int reader) { return device_of[size_t(reader)] == own; });
      if (*last != i) continue;  // a later step of backward adds to this device's part of the gradient
      const int to = device_of[size_t(input)];
      const double there = to == own ? done : connections.send(own, to, item(input).bytes, done);
      ready[size_t(input)] = std::max(ready[size_t(input)], there);
      if (input < part.begin) end = std::max(end, there);
    }
  }
  return end;
}

/// Returns a lower bound: in each direction, a path takes at least the sum of its items, and all devices together take
/// at least the whole work divided by their number.
double Searcher::bound(const Part& part) const {
  double there = 0, back = 0, work_there = 0, work_back = 0;
  std::vector<double> path_there(problem_.items.size()), path_back(problem_.items.size());
  for (int i = part.begin; i < part.end; ++i) {
    if (!reaches_[size_t(i)]) continue;
    double before_there = 0, before_back = 0;
    for (const int input : item(i).inputs) {
      before_there = std::max(before_there, path_there[size_t(input)]);
      before_back = std::max(before_back, path_back[size_t(input)]);
    }
    path_there[size_t(i)] = before_there + item(i).forward;
    path_back[size_t(i)] = before_back + item(i).backward;
    there = std::max(there, path_there[size_t(i)]);
    back = std::max(back, path_back[size_t(i)]);
    work_there += item(i).forward;
    work_back += item(i).backward;
  }
  return std::max(there, work_there / problem_.devices) + std::max(back, work_back / problem_.devices);
}

/// Returns the groups of items that the search moves together. If there are few enough placements to try all of them,
/// each item is a group. Otherwise an item joins the group of its only input if it is the only reader of that input,
/// its output is not larger, and its forward takes at most half as long: a cut between the two would save nothing.
std::vector<std::vector<int>> Searcher::groups_of(const Part& part) const {
  std::vector<std::vector<int>> groups;
  const bool all_alone = std::pow(problem_.devices, part.end - part.begin) <= double(kMostTried);
  for (int i = part.begin; i < part.end; ++i) {
    const std::vector<int>& inputs = item(i).inputs;
    const int input = inputs.size() == 1 ? inputs.front() : -1;
    const bool joins = !all_alone && input >= part.begin && consumers_[size_t(input)].size() == 1 &&
                       item(i).bytes <= item(input).bytes && item(i).forward <= item(input).forward / 2;
    if (!joins) {
      groups.push_back({i});
      continue;
    }
    for (std::vector<int>& group : groups)
      if (group.back() == input) group.push_back(i);
  }
  return groups;
}

void set(const std::vector<int>& group, int device, std::vector<int>& device_of) {
  for (const int i : group) device_of[size_t(i)] = device;
}

void Searcher::try_all(const Part& part, const std::vector<std::vector<int>>& groups,
                       std::vector<int>& device_of) const {
  std::vector<int> digits(groups.size()), best;
  double least = kInfinity;
  while (true) {
    for (size_t g = 0; g < groups.size(); ++g) set(groups[g], digits[g], device_of);
    if (const double now = seconds(device_of, part); now < least) {
      least = now;
      best = digits;
    }
    size_t g = 0;
    while (g < digits.size() && ++digits[g] == problem_.devices) digits[g++] = 0;
    if (g == digits.size()) break;
  }
  for (size_t g = 0; g < groups.size(); ++g) set(groups[g], best[g], device_of);
}

/// Moves single groups and pairs of consecutive groups to other devices, as long as that reduces the time.
void Searcher::descend(const Part& part, const std::vector<std::vector<int>>& groups, std::vector<int>& device_of,
                       int64_t& tries) const {
  double now = seconds(device_of, part);
  for (bool improved = true; improved && tries > 0;) {
    improved = false;
    for (size_t g = 0; g < groups.size(); ++g)
      for (size_t together = 1; together <= 2 && g + together <= groups.size(); ++together)
        for (int device = 0; device < problem_.devices && tries > 0; ++device) {
          std::vector<int> changed = device_of;
          for (size_t k = g; k < g + together; ++k) set(groups[k], device, changed);
          if (changed == device_of) continue;
          --tries;
          if (const double then = seconds(changed, part); then < now) {
            now = then;
            device_of = std::move(changed);
            improved = true;
          }
        }
  }
}

/// Descends from several starting points: everything on one device; a greedy placement, with each group on the device
/// with which the forward up to it ends first; and random changes of the best placement so far.
void Searcher::climb(const Part& part, const std::vector<std::vector<int>>& groups, std::vector<int>& device_of) const {
  int64_t tries = kMostTried;
  std::vector<int> best = device_of;
  descend(part, groups, best, tries);
  double least = seconds(best, part);
  const auto keep = [&](std::vector<int> found) {
    descend(part, groups, found, tries);
    if (const double now = seconds(found, part); now < least) {
      least = now;
      best = std::move(found);
    }
  };
  std::vector<int> greedy = device_of;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Part so_far{part.begin, groups[g].front() + 1};
    int first = 0;
    double soonest = kInfinity;
    for (int device = 0; device < problem_.devices; ++device) {
      set(groups[g], device, greedy);
      if (const double now = forward(greedy, so_far); now < soonest) {
        soonest = now;
        first = device;
      }
    }
    set(groups[g], first, greedy);
  }
  keep(std::move(greedy));
  const Philox draw(random_key(0, "placements"));
  for (int restart = 0; restart < kRestarts && tries > 0; ++restart) {
    std::vector<int> changed = best;
    for (size_t g = 0; g < groups.size(); ++g)
      if (draw.uniform(2 * g, uint64_t(restart)) < 0.2)
        set(groups[g], int(draw.uniform(2 * g + 1, uint64_t(restart)) * problem_.devices), changed);
    keep(std::move(changed));
  }
  device_of = std::move(best);
}

/// Places the items of a part. The item before the part is taken to be on device 0.
void Searcher::solve(const Part& part, std::vector<int>& device_of) const {
  const std::vector<std::vector<int>> groups = groups_of(part);
  if (std::pow(problem_.devices, double(groups.size())) <= double(kMostTried)) try_all(part, groups, device_of);
  else climb(part, groups, device_of);
}

/// Moves single items of the whole model, as long as that reduces the time.
void Searcher::polish(std::vector<int>& device_of) const {
  double now = seconds(device_of);
  for (int round = 0; round < kPolishes; ++round) {
    bool improved = false;
    for (int i = 0; i < count(); ++i)
      for (int device = 0; device < problem_.devices; ++device) {
        const int before = device_of[size_t(i)];
        if (device == before) continue;
        device_of[size_t(i)] = device;
        if (const double then = seconds(device_of); then < now) {
          now = then;
          improved = true;
        } else {
          device_of[size_t(i)] = before;
        }
      }
    if (!improved) return;
  }
}

OperatorPlacement Searcher::find() {
  OperatorPlacement found{.device_of = std::vector<int>(problem_.items.size(), 0)};
  int entry = 0;  // device of the item before the part
  for (const Part& part : parts_) {
    std::vector<int> own(problem_.items.size(), 0);
    solve(part, own);
    // solve() assumes that the part's input is on device 0. Devices are equal, so their numbers are shifted by `entry`.
    for (int i = part.begin; i < part.end; ++i)
      found.device_of[size_t(i)] = (own[size_t(i)] + entry) % problem_.devices;
    entry = found.device_of[size_t(part.end - 1)];
    found.bound += bound(part);
  }
  if (problem_.items.size() <= size_t(kMostTried) / 8) polish(found.device_of);
  found.seconds = seconds(found.device_of);
  return found;
}

}  // namespace

double seconds_of(const OperatorProblem& problem, const std::vector<int>& device_of) {
  return Searcher(problem).seconds(device_of);
}

OperatorPlacement find_placement(const OperatorProblem& problem) { return Searcher(problem).find(); }

}  // namespace trireme
