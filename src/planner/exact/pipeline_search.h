// Finds the best pipeline of one schedule by dynamic programming over the cut points: cuts, devices of each stage, and
// the division of each layer.
//
// The time of a step is the sum of the stages' fill plus the largest of their mains. For each (cut, first device,
// stages left) the program therefore retains all non-dominated pairs (sum of fill, largest main). Segments start as
// bounds. The segments that the best pipeline uses are refined, until the best pipeline uses only settled segments.
// Then it is optimal.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "planner/exact/stage_searches.h"

namespace trireme {

/// What does not change within one search.
struct PipelineConfiguration {
  const Schedule* schedule = nullptr;
  StageSettings settings;
  int chunks = 1;               ///< stages per worker
  int positions = 0;            ///< positions of the pipeline; 0: two or more, chosen by the search
  std::vector<int> sizes = {};  ///< numbers of devices that a stage may have; one number if positions > 0
  int devices = 1;              ///< the most devices to use
  TiedCuts tied = {};
};

struct StagePick {
  int begin = 0, end = 0;  ///< units of the ModelSegments
  DeviceSpan span;
  std::vector<int> candidates;
};

/// A search that advances one step at a time. Not thread-safe.
class PipelineSearch {
 public:
  /// `searches` must outlive this object.
  PipelineSearch(StageSearches& searches, PipelineConfiguration configuration);

  const PipelineConfiguration& configuration() const { return configuration_; }

  /// A lower bound on the step time of the configuration: the sum of all fills, plus the mean of the mains as a bound
  /// on the largest main.
  double quick_bound() const;

  struct Step {
    double bound = 0;               ///< lower bound on the step time; at most the cutoff
    std::vector<StagePick> stages;  ///< a pipeline that fits; the optimal one if `done` and not empty
    bool done = false;              ///< no pipeline below the cutoff remains
  };
  /// Finds the best pipeline under the present knowledge of the segments, and refines the segments that it uses.
  /// `cutoff`: only pipelines with fewer seconds matter.
  Step advance(double cutoff);

 private:
  /// The stages from a cut to the end.
  struct Tail {
    double fill = 0, main = -std::numeric_limits<double>::infinity();
    int stages = 0;
    // The first of these stages, and the remaining ones.
    int end = 0, size = 0, choice = 0;
    int next = -1;  // index in the list of (stages - 1, end, device after the stage); -1: no such pipeline
    double seconds() const { return fill + main; }
  };
  struct Where {
    int left, unit, device;  // stages left (0 if they are not counted), first unit, first device
  };

  /// True if all stages have one size. Then the number of stages left determines the next devices.
  bool fixed() const { return configuration_.positions > 0; }
  int columns() const { return fixed() ? 1 : configuration_.devices + 1; }
  size_t index(const Where& where) const;
  int device_of(int left) const {
    const int position = configuration_.schedule->position_of(most_stages_ - left, configuration_.positions);
    return position * configuration_.sizes.front();
  }
  SegmentSearch& search(DeviceSpan span);
  PipelinePlace shape() const {
    return {.depth = std::max(1, configuration_.positions),
            .chunks = configuration_.chunks,
            .micro_batches = configuration_.settings.micro_batches};
  }
  double micro_batches(int left) const;
  double cutoff_for(int begin, int end, double cutoff) const;
  bool complete() const;

  Tail best_pipeline(double cutoff);
  void extend(const Where& at, double cutoff);
  static void keep(std::vector<Tail>& tails, const Tail& tail);
  template <class Visit>
  void visit_stages(const Tail& best, Visit&& visit);
  bool look_closer(const Tail& best, double cutoff);
  std::vector<StagePick> real_stages(const Tail& best);
  std::vector<StagePick> stages_of(const Tail& best, double cutoff);

  StageSearches& stage_searches_;
  const PipelineConfiguration configuration_;
  const int units_;
  bool counted_ = false;  ///< the memory of a stage depends on the number of stages after it
  int most_stages_ = 1;
  double proven_ = 0;
  const StageSearches::Fills* fills_ = nullptr;
  std::vector<std::vector<Tail>> tails_;
  std::map<std::pair<int, int>, SegmentSearch*> searches_;
};

}  // namespace trireme
