// The best pipeline of one schedule: cuts, devices of each stage, and how each layer is divided, by dynamic programming over the cuts.
//
// A step is the sum of the stages' fill and the greatest of their mains, so the program keeps for every (cut, first device, stages left) all
// pairs of sum and greatest that no other beats. Segments begin as bounds; those that the best pipeline uses are searched in earnest, until the
// best pipeline uses searched segments only: then it is the best of all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/exact/places.h"

namespace trireme {

/// What does not change within one search.
struct PipelineQuestion {
  std::string schedule = "1f1b";
  StageSettings settings;
  int chunks = 1;            ///< stages per worker
  int positions = 0;         ///< of the pipeline; 0: as many as is best
  std::vector<int> sizes = {};  ///< devices that a stage may have; one size where positions > 0
  int devices = 1;           ///< at most
  TiedCuts tied = {};
};

struct StagePick {
  int begin = 0, end = 0;  ///< units of the outline
  DeviceSpan span;
  double micro_batches = 0;  ///< in flight
  std::vector<int> candidates;
};

struct PipelineAnswer {
  double seconds = 0;          ///< of the best pipeline, where `stages` is not empty
  std::vector<StagePick> stages;
  bool complete = true;        ///< false: labels were left out, so that `seconds` need not be the least
  double lower_bound = 0;      ///< no pipeline that the question asks for is better; at most the cutoff
};

/// Pipelines of two stages or more (and with positions = 1 and chunks = 1 those of one stage). `cutoff`: only better ones matter; where there
/// are none the answer has no stages. `stop` is asked now and then; true ends the search with what is proven.
PipelineAnswer search_pipelines(Places& places, const PipelineQuestion& question, double cutoff, const std::function<bool()>& stop);

}  // namespace trireme
