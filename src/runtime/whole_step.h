// Makes each step apply to the weights completely or not at all. A worker that has lost the others then knows which
// steps its replica contains. After Gemini (Wang et al., SOSP 2023), which restores from the memory of the machines
// that are left, but without its extra copies: plain data parallelism has copies anyway.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "trireme/model.h"

namespace trireme {

/// The steps that have been trained, with WorkerOptions::keeps_whole_steps.
struct WholeSteps {
  int64_t done = 0;  ///< steps of this worker, without those of the workers that it replaces
  /// Of at least the last two steps, by step number from 1: StepOutcome::loss_sum by rank.
  std::map<int64_t, std::vector<double>> losses = {};
};

/// Returns the reason why rank 0 does not hold everything that a run needs to continue, or "" if it does.
std::string obstacle_to_whole_steps(const Program& program, const Model& model);

}  // namespace trireme
