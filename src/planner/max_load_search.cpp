#include "planner/max_load_search.h"

#include <algorithm>
#include <limits>

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kStepsPerPair = 8;  // of a walk, that take as long as a pair does
constexpr double kRounding = 1e-9;  // of sums and differences of times, relative

}  // namespace

MaxLoadSearch::MaxLoadSearch(const OrderIdeals& ideals, const ColorGraph& graph, const DeviceLimits& limits)
    : ideals_(ideals), graph_(graph), limits_(limits) {
  // more devices than classes cannot be used
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
  for (const ClassOutput& output : graph.outputs) {
    readers_.emplace_back(int(graph.classes.size()));
    for (int reader : output.readers) readers_.back().insert(reader);
  }
}

/// The most work, in accelerator time, that so many devices can do with every load below the bound.
double MaxLoadSearch::capacity(int cpus, int accelerators, double bound) const {
  const double devices = accelerators + (cpus > 0 ? cpus * cpu_share_ : 0);
  return devices > 0 ? bound * devices * (1 + kRounding) : 0;
}

bool MaxLoadSearch::is_useful(size_t ideal, double bound) const {
  const double behind = accelerator_.back() - accelerator_[ideal];
  for (int c = 0; c <= limits_.cpus; ++c)
    for (int a = 0; a <= limits_.accelerators; ++a)
      if (accelerator_[ideal] <= capacity(c, a, bound) && behind <= capacity(limits_.cpus - c, limits_.accelerators - a, bound))
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
  all_reached_.assign(1, 0);
  for (size_t ideal = 1; ideal < ideals_.size(); ++ideal) {
    if (!is_useful(ideal, bound)) continue;
    if (deadline.passed()) {
      complete = false;
      return {};
    }
    if (all_reached_.size() * kStepsPerPair < ideal) {
      pair_directly(ideal, bound);
    } else {
      communication_ = 0;
      walk(ideal, ideal, bound);
    }
    drop_hopeless(ideal, bound);
    if (reached_[ideal]) all_reached_.push_back(ideal);
  }
  return reached_.back() ? parts() : std::vector<DevicePart>{};
}

/// Whether a device could hold the part, communication aside. If not, nothing larger fits either.
bool MaxLoadSearch::fits_somewhere(size_t from, size_t to, double bound) const {
  if (limits_.cpus > 0 && cpu_[to] - cpu_[from] < bound) return true;
  return limits_.accelerators > 0 && accelerator_[to] - accelerator_[from] < bound && bytes_[to] - bytes_[from] <= limits_.memory &&
         cpu_only_[to] == cpu_only_[from];
}

void MaxLoadSearch::pair_directly(size_t ideal, double bound) {
  for (size_t from : all_reached_)
    if (fits_somewhere(from, ideal, bound) && ideals_.is_subset(from, ideal))
      try_part(ideal, from, communication_between(from, ideal), bound);
}

double MaxLoadSearch::communication_between(size_t from, size_t to) const {
  const auto small = ideals_.bits(from), large = ideals_.bits(to);
  double sum = 0;
  for (size_t o = 0; o < graph_.outputs.size(); ++o) {
    const int owner = graph_.outputs[o].owner;
    const bool owned = ideals_.contains(to, owner) && !ideals_.contains(from, owner);
    const auto readers = readers_[o].words();
    uint64_t across = 0;
    for (size_t i = 0; i < readers.size(); ++i) {
      const uint64_t part = large[i] & ~small[i];
      across |= readers[i] & (owned ? ~part : part);
    }
    if (across != 0) sum += graph_.outputs[o].send;
  }
  return sum;
}

void MaxLoadSearch::walk(size_t ideal, size_t at, double bound) {
  for (const OrderIdeals::Step step : ideals_.steps_down(at)) {
    const size_t smaller = size_t(step.smaller);
    if (seen_[smaller] == ideal) continue;
    seen_[smaller] = uint32_t(ideal);
    if (!fits_somewhere(smaller, ideal, bound)) continue;
    flip(step.vertex);
    if (reached_[smaller]) try_part(ideal, smaller, communication_, bound);
    walk(ideal, smaller, bound);
    flip(step.vertex);
  }
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

/// Forgets ways to `ideal` that leave more work than the other devices can do below the bound.
void MaxLoadSearch::drop_hopeless(size_t ideal, double bound) {
  const double behind = accelerator_.back() - accelerator_[ideal];
  bool any = false;
  for (int c = 0; c <= limits_.cpus; ++c)
    for (int a = 0; a <= limits_.accelerators; ++a) {
      double& best = best_[cell(ideal, c, a)];
      if (behind > capacity(limits_.cpus - c, limits_.accelerators - a, bound)) best = kInfinity;
      any = any || best < bound;
    }
  reached_[ideal] = any;
}

bool MaxLoadSearch::crosses(int output) const {
  const ClassOutput& o = graph_.outputs[size_t(output)];
  const int in = readers_in_[size_t(output)];
  return inside_[size_t(o.owner)] ? in < int(o.readers.size()) : in > 0;
}

/// Takes a class into the part, or out of it.
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
