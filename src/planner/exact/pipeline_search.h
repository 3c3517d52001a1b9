// The best pipeline of one schedule: cuts, devices of each stage, and how each layer is divided, by dynamic programming
// over the cuts.
//
// A step is the sum of the stages' fill and the greatest of their mains, so the program keeps for every (cut, first
// device, stages left) all pairs of sum and greatest that no other beats. Segments begin as bounds; those that the best
// pipeline uses are looked at more closely, until the best pipeline uses settled segments only: then it is the best of
// all.
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
  int positions = 0;            ///< of the pipeline; 0: two or more, as many as is best
  std::vector<int> sizes = {};  ///< devices that a stage may have; one size where positions > 0
  int devices = 1;              ///< at most
  TiedCuts tied = {};
};

struct StagePick {
  int begin = 0, end = 0;  ///< units of the model_segments
  DeviceSpan span;
  std::vector<int> candidates;
};

/// A search that goes on one step at a time. Used by one thread.
class PipelineSearch {
 public:
  /// `searches` outlives it.
  PipelineSearch(StageSearches& searches, PipelineConfiguration configuration);

  const PipelineConfiguration& configuration() const { return configuration_; }

  /// No pipeline that the configuration asks for takes less: all fills, and the greatest main is no less than the
  /// mains' mean.
  double quick_bound() const;

  struct Step {
    double bound = 0;               ///< no pipeline takes less; at most the cutoff
    std::vector<StagePick> stages;  ///< a pipeline that fits; where `done` and not empty, the best
    bool done = false;              ///< nothing is left to look for below the cutoff
  };
  /// Finds the best pipeline as far as its segments are known, and gets to know them better. `cutoff`: only pipelines
  /// of less seconds matter.
  Step advance(double cutoff);

 private:
  /// From a cut to the end.
  struct Way {
    double fill = 0, main = -std::numeric_limits<double>::infinity();
    int stages = 0;
    // its first stage, and the way after it
    int end = 0, size = 0, choice = 0;
    int next = -1;  // index in the list of (stages - 1, end, device after); -1: there is no way
    double seconds() const { return fill + main; }
  };
  struct Where {
    int left, unit, device;  // stages left (0 where they are not counted), first unit, first device
  };

  /// Where all stages have one size, the number of stages left says which devices are next.
  bool fixed() const { return configuration_.positions > 0; }
  int columns() const { return fixed() ? 1 : configuration_.devices + 1; }
  size_t index(const Where& where) const;
  int device_of(int left) const {
    return (most_stages_ - left) % configuration_.positions * configuration_.sizes.front();
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

  Way best_way(double cutoff);
  void extend(const Where& at, double cutoff);
  static void keep(std::vector<Way>& ways, const Way& way);
  template <class Visit>
  void visit_stages(const Way& best, Visit&& visit);
  bool look_closer(const Way& best, double cutoff);
  std::vector<StagePick> real_stages(const Way& best);
  std::vector<StagePick> stages_of(const Way& best, double cutoff);

  StageSearches& stage_searches_;
  const PipelineConfiguration configuration_;
  const int units_;
  bool counted_ = false;  ///< what a stage keeps depends on how many come after it
  int most_stages_ = 1;
  double proven_ = 0;
  const StageSearches::Fills* fills_ = nullptr;
  std::vector<std::vector<Way>> ways_;
  std::map<std::pair<int, int>, SegmentSearch*> searches_;
};

}  // namespace trireme
