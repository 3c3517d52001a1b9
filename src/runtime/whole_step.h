// Steps that are wholly in the weights or not at all, so that a worker which the others have left can say what was
// trained: its replica is as good as any other. After Gemini (Wang et al., SOSP 2023), which restores from the memory
// of machines that are left, without its copies: plain data parallelism has them anyway.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "trireme/model.h"

namespace trireme {

/// What has been trained, with WorkerOptions::keeps_whole_steps.
struct WholeSteps {
  int64_t done = 0;  ///< steps of this worker, not of those that it goes on for
  std::map<int64_t, std::vector<double>> losses =
      {};  ///< of the last two at least, by number of the step from 1: StepOutcome::loss_sum by rank
};

/// Why rank 0 does not hold all that a run goes on with; "" where it does.
std::string obstacle_to_whole_steps(const Program& program, const Model& model);

}  // namespace trireme
