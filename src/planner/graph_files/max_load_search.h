// Dynamic program over (order ideal, number of devices used up to it): the core of plan_max_load.
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
  double memory = 0;  ///< bytes per accelerator
};

/// The classes of one device.
struct DevicePart {
  std::vector<int> classes;
  bool on_cpu = false;
  double compute = 0, load = 0;
};

/// Finds the placement with the smallest largest load, if one is below a bound.
///
/// An ideal is skipped if it cannot be reached, or leaves too much work, with each device below the bound. For each
/// remaining ideal, the search descends through smaller ideals: one class at a time joins the part between the two, and
/// the part's communication is updated class by class. This is fast if parts are small. If the descent takes too many
/// steps, the ideal is instead paired directly with all ideals reached before it; these are few if the bound is tight.
class MaxLoadSearch {
 public:
  MaxLoadSearch(const OrderIdeals& ideals, const ColorGraph& graph, const DeviceLimits& limits);

  /// The parts in the order of the data; empty if no placement is below `bound`. `complete` is set to false if the
  /// deadline ended the search.
  std::vector<DevicePart> run(double bound, const Deadline& deadline, bool& complete);

 private:
  struct Reached {
    double accelerator, cpu;  ///< work of the ideal; stored here because all entries are read in sequence
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
  bool descend(size_t ideal, size_t at, double bound);
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
  double cpu_share_ = 0;  ///< the most accelerator time that one CPU replaces per unit of its own time
  std::vector<double> cpu_, accelerator_, bytes_, cpu_only_;  ///< by ideal: sums; cpu_only_: number of classes
  /// By ideal: the outputs that one side of it sends and the other reads (of ideal i: from crossing_begin_[i] to
  /// crossing_begin_[i + 1]), and the sum of their times.
  std::vector<int32_t> crossing_outputs_;
  std::vector<size_t> crossing_begin_;
  std::vector<double> crossing_;
  std::vector<double> best_;    ///< by cell: the smallest largest load
  std::vector<Choice> choice_;  ///< by cell
  std::vector<char> reached_;   ///< by ideal: some cell is below the bound
  std::vector<Reached> all_reached_;
  std::vector<uint32_t> seen_;  ///< by ideal: the descent in which it was last seen
  size_t steps_left_ = 0;       ///< of the present descent

  std::vector<char> inside_;     ///< by class: in the part
  std::vector<int> readers_in_;  ///< by output: number of readers in the part
  double communication_ = 0;     ///< of the part
};

}  // namespace trireme
