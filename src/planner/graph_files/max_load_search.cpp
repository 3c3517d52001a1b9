#include "planner/graph_files/max_load_search.h"

#include <algorithm>

#include "base/infinity.h"

namespace trireme {
namespace {

constexpr size_t kPairsPerStep = 64;    // pairs that are tested in the time of one step of a descent
constexpr double kTimeRounding = 1e-9;  // relative; of sums and differences of times

}  // namespace

MaxLoadSearch::MaxLoadSearch(const OrderIdeals& ideals, const ColorGraph& graph, const DeviceLimits& limits)
    : ideals_(ideals), graph_(graph), limits_(limits) {
  // More devices than classes cannot be used.
  limits_.accelerators = std::min(limits.accelerators, int(graph.classes.size()));
  limits_.cpus = std::min(limits.cpus, int(graph.classes.size()));
  columns_ = size_t(limits_.accelerators) + 1;
  const auto sums = [&](auto value) {
    std::vector<double> values;
    for (const ColorClass& c : graph.classes) values.push_back(value(c));
    return ideals.sums(values);
  };
  cpu_ = sums([](const ColorClass& c) { return c.cpu; });
  accelerator_ = sums([](const ColorClass& c) { return c.accelerator; });
  bytes_ = sums([](const ColorClass& c) { return c.bytes; });
  cpu_only_ = sums([](const ColorClass& c) { return c.on_accelerator ? 0.0 : 1.0; });
  for (const ColorClass& c : graph.classes)
    if (c.accelerator > 0) cpu_share_ = std::max(cpu_share_, c.cpu > 0 ? c.accelerator / c.cpu : kInfinity);
  inside_.assign(graph.classes.size(), 0);
  readers_in_.assign(graph.outputs.size(), 0);
  list_crossing();
}

/// Derives an ideal's list from that of an ideal smaller by one class: only outputs of that class and to it change.
void MaxLoadSearch::list_crossing() {
  crossing_begin_.assign(2, 0);  // nothing crosses the empty set
  crossing_.assign(1, 0);
  for (size_t ideal = 1; ideal < ideals_.size(); ++ideal) {
    const OrderIdeals::Step step = ideals_.steps_down(ideal).front();
    const size_t smaller = size_t(step.smaller), klass = size_t(step.vertex), begin = crossing_outputs_.size();
    for (size_t i = crossing_begin_[smaller]; i < crossing_begin_[smaller + 1]; ++i)
      if (crosses_cut(size_t(crossing_outputs_[i]), ideal)) crossing_outputs_.push_back(crossing_outputs_[i]);
    for (const auto* touched : {&graph_.owned[klass], &graph_.read[klass]})
      for (int output : *touched)
        if (!crosses_cut(size_t(output), smaller) && crosses_cut(size_t(output), ideal))
          crossing_outputs_.push_back(output);
    crossing_begin_.push_back(crossing_outputs_.size());
    double sum = 0;
    for (size_t i = begin; i < crossing_outputs_.size(); ++i) sum += graph_.outputs[size_t(crossing_outputs_[i])].send;
    crossing_.push_back(sum);
  }
}

std::span<const int32_t> MaxLoadSearch::crossing_outputs(size_t ideal) const {
  return {crossing_outputs_.data() + crossing_begin_[ideal], crossing_outputs_.data() + crossing_begin_[ideal + 1]};
}

/// True if the output's class is on one side of the ideal and a reader on the other.
bool MaxLoadSearch::crosses_cut(size_t output, size_t ideal) const {
  const ClassOutput& o = graph_.outputs[output];
  const bool owned = ideals_.contains(ideal, o.owner);
  return std::any_of(o.readers.begin(), o.readers.end(),
                     [&](int reader) { return ideals_.contains(ideal, reader) != owned; });
}

/// True if these devices may do `work`, in accelerator time, with each load below the bound. If none of them is a CPU,
/// each output that crosses the cut between these devices and the others costs one of them its transfer. CPUs are not
/// charged for transfers.
bool MaxLoadSearch::suffice(int cpus, int accelerators, double work, double crossing, double bound) const {
  const double devices = accelerators + (cpus > 0 ? cpus * cpu_share_ : 0);
  const double capacity = devices > 0 ? bound * devices * (1 + kTimeRounding) : 0;
  return work + (cpus > 0 ? 0 : crossing) <= capacity;
}

bool MaxLoadSearch::suffice_behind(size_t ideal, int cpus_before, int accelerators_before, double bound) const {
  return suffice(limits_.cpus - cpus_before, limits_.accelerators - accelerators_before,
                 accelerator_.back() - accelerator_[ideal], crossing_[ideal], bound);
}

bool MaxLoadSearch::is_useful(size_t ideal, double bound) const {
  for (int c = 0; c <= limits_.cpus; ++c)
    for (int a = 0; a <= limits_.accelerators; ++a)
      if (suffice(c, a, accelerator_[ideal], crossing_[ideal], bound) && suffice_behind(ideal, c, a, bound))
        return true;
  return false;
}

std::vector<DevicePart> MaxLoadSearch::run(double bound, const Deadline& deadline, bool& complete) {
  complete = true;
  best_.assign(cell(ideals_.size(), 0, 0), kInfinity);
  choice_.assign(best_.size(), {});
  reached_.assign(ideals_.size(), 0);
  seen_.assign(ideals_.size(), 0);
  std::fill_n(best_.begin(), cell(1, 0, 0), 0.0);
  reached_[0] = 1;
  all_reached_.assign(1, {0, 0, 0});
  for (size_t ideal = 1; ideal < ideals_.size(); ++ideal) {
    if (!is_useful(ideal, bound)) continue;
    if (deadline.passed()) {
      complete = false;
      return {};
    }
    communication_ = 0;
    steps_left_ = all_reached_.size() / kPairsPerStep;
    if (!descend(ideal, ideal, bound)) pair_directly(ideal, bound);
    drop_hopeless(ideal, bound);
    if (reached_[ideal]) all_reached_.push_back({accelerator_[ideal], cpu_[ideal], ideal});
  }
  return reached_.back() ? parts() : std::vector<DevicePart>{};
}

/// True if a device could hold the part, communication aside. If not, no larger part fits either.
bool MaxLoadSearch::fits_somewhere(size_t from, size_t to, double bound) const {
  if (limits_.cpus > 0 && cpu_[to] - cpu_[from] < bound) return true;
  return limits_.accelerators > 0 && accelerator_[to] - accelerator_[from] < bound &&
         bytes_[to] - bytes_[from] <= limits_.memory && cpu_only_[to] == cpu_only_[from];
}

void MaxLoadSearch::pair_directly(size_t ideal, double bound) {
  // For most ideals, the work from them to `ideal` is more than one device can do. They are skipped first, by their
  // sums.
  const double accelerator = limits_.accelerators > 0 ? accelerator_[ideal] - bound : kInfinity;
  const double cpu = limits_.cpus > 0 ? cpu_[ideal] - bound : kInfinity;
  for (const Reached& before : all_reached_) {
    if (before.accelerator <= accelerator && before.cpu <= cpu) continue;
    const size_t from = before.ideal;
    if (fits_somewhere(from, ideal, bound) && could_improve(ideal, from, bound) && ideals_.is_subset(from, ideal))
      try_part(ideal, from, communication_between(from, ideal), bound);
  }
}

/// True if the part would improve the placement up to `ideal` if its communication took no time.
bool MaxLoadSearch::could_improve(size_t ideal, size_t from, double bound) const {
  const double on_accelerator = accelerator_[ideal] - accelerator_[from], on_cpu = cpu_[ideal] - cpu_[from];
  const auto better = [&](size_t here, size_t before, double load) {
    return std::max(best_[before], load) < std::min(best_[here], bound);
  };
  for (int c = 0; c <= limits_.cpus; ++c)
    for (int a = 0; a <= limits_.accelerators; ++a) {
      if (a > 0 && better(cell(ideal, c, a), cell(from, c, a - 1), on_accelerator)) return true;
      if (c > 0 && better(cell(ideal, c, a), cell(from, c - 1, a), on_cpu)) return true;
    }
  return false;
}

/// Each output that the part between two cuts sends or receives crosses one of the cuts, or both.
double MaxLoadSearch::communication_between(size_t from, size_t to) const {
  const auto in_part = [&](int klass) { return ideals_.contains(to, klass) && !ideals_.contains(from, klass); };
  const auto enters_or_leaves = [&](const ClassOutput& output) {
    const bool owned = in_part(output.owner);
    return std::any_of(output.readers.begin(), output.readers.end(),
                       [&](int reader) { return in_part(reader) != owned; });
  };
  double sum = 0;
  for (int32_t o : crossing_outputs(from))
    if (enters_or_leaves(graph_.outputs[size_t(o)])) sum += graph_.outputs[size_t(o)].send;
  for (int32_t o : crossing_outputs(to))
    if (!crosses_cut(size_t(o), from) && enters_or_leaves(graph_.outputs[size_t(o)]))
      sum += graph_.outputs[size_t(o)].send;
  return sum;
}

/// Descends from `at`. Returns false if the steps did not suffice; the parts found before remain valid.
bool MaxLoadSearch::descend(size_t ideal, size_t at, double bound) {
  for (const OrderIdeals::Step step : ideals_.steps_down(at)) {
    const size_t smaller = size_t(step.smaller);
    if (seen_[smaller] == ideal) continue;
    seen_[smaller] = uint32_t(ideal);
    if (!fits_somewhere(smaller, ideal, bound)) continue;
    if (steps_left_-- == 0) return false;
    flip(step.vertex);
    if (reached_[smaller]) try_part(ideal, smaller, communication_, bound);
    const bool done = descend(ideal, smaller, bound);
    flip(step.vertex);
    if (!done) return false;
  }
  return true;
}

void MaxLoadSearch::try_part(size_t ideal, size_t from, double communication, double bound) {
  const bool fits = bytes_[ideal] - bytes_[from] <= limits_.memory && cpu_only_[ideal] == cpu_only_[from];
  const double on_accelerator = fits ? accelerator_[ideal] - accelerator_[from] + communication : kInfinity;
  const double on_cpu = cpu_[ideal] - cpu_[from];
  const auto improve = [&](int c, int a, size_t before, double load, bool cpu) {
    const double value = std::max(best_[before], load);
    const size_t here = cell(ideal, c, a);
    if (value >= bound || value >= best_[here]) return;
    best_[here] = value;
    choice_[here] = {int32_t(from), cpu};
    reached_[ideal] = 1;
  };
  for (int c = 0; c <= limits_.cpus; ++c)
    for (int a = 0; a <= limits_.accelerators; ++a) {
      if (a > 0 && on_accelerator < bound) improve(c, a, cell(from, c, a - 1), on_accelerator, false);
      if (c > 0 && on_cpu < bound) improve(c, a, cell(from, c - 1, a), on_cpu, true);
    }
}

/// Drops placements up to `ideal` that leave more work than the other devices can do below the bound.
void MaxLoadSearch::drop_hopeless(size_t ideal, double bound) {
  bool any = false;
  for (int c = 0; c <= limits_.cpus; ++c)
    for (int a = 0; a <= limits_.accelerators; ++a) {
      double& best = best_[cell(ideal, c, a)];
      if (!suffice_behind(ideal, c, a, bound)) best = kInfinity;
      any = any || best < bound;
    }
  reached_[ideal] = any;
}

bool MaxLoadSearch::crosses(int output) const {
  const ClassOutput& o = graph_.outputs[size_t(output)];
  const int in = readers_in_[size_t(output)];
  return inside_[size_t(o.owner)] ? in < int(o.readers.size()) : in > 0;
}

/// Adds a class to the part, or removes it.
void MaxLoadSearch::flip(int klass) {
  const auto count = [&](const std::vector<int>& outputs, int sign) {
    for (int output : outputs)
      if (crosses(output)) communication_ += sign * graph_.outputs[size_t(output)].send;
  };
  count(graph_.owned[size_t(klass)], -1);
  count(graph_.read[size_t(klass)], -1);
  const int more = inside_[size_t(klass)] ? -1 : 1;
  inside_[size_t(klass)] = more > 0;
  for (int output : graph_.read[size_t(klass)]) readers_in_[size_t(output)] += more;
  count(graph_.owned[size_t(klass)], 1);
  count(graph_.read[size_t(klass)], 1);
}

std::vector<DevicePart> MaxLoadSearch::parts() const {
  std::vector<DevicePart> result;
  int c = limits_.cpus, a = limits_.accelerators;
  for (size_t ideal = ideals_.size() - 1; ideal != 0;) {
    const Choice choice = choice_[cell(ideal, c, a)];
    DevicePart part{.classes = ideals_.difference(size_t(choice.from), ideal), .on_cpu = choice.on_cpu};
    std::vector<char> inside(graph_.classes.size(), 0);
    for (int klass : part.classes) {
      const ColorClass& members = graph_.classes[size_t(klass)];
      part.compute += choice.on_cpu ? members.cpu : members.accelerator;
      inside[size_t(klass)] = 1;
    }
    part.load = part.compute + (choice.on_cpu ? 0 : communication(graph_, inside));
    result.push_back(std::move(part));
    (choice.on_cpu ? c : a) -= 1;
    ideal = size_t(choice.from);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace trireme
