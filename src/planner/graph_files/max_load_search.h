// Dynamic program over (order ideal, devices used up to it): the core of plan_max_load.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/deadline.h"
#include "planner/graph_files/color_graph.h"
#include "planner/graph_files/order_ideals.h"

namespace trireme {

struct DeviceLimits {
  int accelerators = 0, cpus = 0;
  double memory = 0;  ///< bytes of an accelerator
};

/// Classes that one device holds.
struct DevicePart {
  std::vector<int> classes;
  bool on_cpu = false;
  double compute = 0, load = 0;
};

/// Finds the placement with the smallest largest load, if one is below a bound.
///
/// Ideals are left out that cannot be reached, or leave too much work, with every device below the bound. From each
/// that remains, smaller ideals are walked through, one class more at a time leaving it for the part between the two,
/// with communication kept up to date class by class: quick where parts are small. Where that takes more steps than it
/// is worth, the ideal is paired directly with all those that were reached before it: they are few where the bound is
/// tight.
class MaxLoadSearch {
 public:
  MaxLoadSearch(const OrderIdeals& ideals, const ColorGraph& graph, const DeviceLimits& limits);

  /// The parts in order of the data; empty where no placement is below `bound`. `complete`: whether the deadline left
  /// time to look at all.
  std::vector<DevicePart> run(double bound, const Deadline& deadline, bool& complete);

 private:
  struct Reached {
    double accelerator, cpu;  ///< its work, read one after the other
    size_t ideal;
  };
  struct Choice {
    int32_t from = -1;  ///< the ideal before the device's part
    bool on_cpu = false;
  };

  size_t cell(size_t ideal, int cpus, int accelerators) const {
    return (ideal * size_t(limits_.cpus + 1) + size_t(cpus)) * columns_ + size_t(accelerators);
  }
  bool suffice(int cpus, int accelerators, double work, double crossing, double bound) const;
  bool suffice_behind(size_t ideal, int cpus_before, int accelerators_before, double bound) const;
  bool is_useful(size_t ideal, double bound) const;
  void pair_directly(size_t ideal, double bound);
  bool could_improve(size_t ideal, size_t from, double bound) const;
  bool walk(size_t ideal, size_t at, double bound);
  void try_part(size_t ideal, size_t from, double communication, double bound);
  void drop_hopeless(size_t ideal, double bound);
  bool fits_somewhere(size_t from, size_t to, double bound) const;
  void list_crossing();
  std::span<const int32_t> crossing_outputs(size_t ideal) const;
  bool crosses_cut(size_t output, size_t ideal) const;
  double communication_between(size_t from, size_t to) const;
  bool crosses(int output) const;
  void flip(int klass);
  std::vector<DevicePart> parts() const;

  const OrderIdeals& ideals_;
  const ColorGraph& graph_;
  DeviceLimits limits_;
  size_t columns_;
  double cpu_share_ = 0;  ///< the most accelerator time that one CPU takes over per unit of its own
  std::vector<double> cpu_, accelerator_, bytes_, cpu_only_;  ///< sums over each ideal; cpu_only_: number of classes
  /// Per ideal the outputs that one side of it sends and the other reads (of ideal i: from crossing_begin_[i] to
  /// crossing_begin_[i + 1]), and the sum of their times.
  std::vector<int32_t> crossing_outputs_;
  std::vector<size_t> crossing_begin_;
  std::vector<double> crossing_;
  std::vector<double> best_;    ///< by cell: smallest largest load
  std::vector<Choice> choice_;  ///< by cell
  std::vector<char> reached_;   ///< per ideal: some cell is below the bound
  std::vector<Reached> all_reached_;
  std::vector<uint32_t> seen_;  ///< per ideal: the walk it was last seen in
  size_t steps_left_ = 0;       ///< of the walk under way

  std::vector<char> inside_;     ///< per class: in the part
  std::vector<int> readers_in_;  ///< per output: readers in the part
  double communication_ = 0;     ///< of the part
};

}  // namespace trireme
