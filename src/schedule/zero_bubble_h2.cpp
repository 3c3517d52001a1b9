// ZB-H2 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024): twice the forwards of ZB-H1 (zero_bubble.cpp)
// before the first backward, so that no position waits for its first backward if t_F = t_B. Position s first does 2 (p
// - 1 - s) forwards, and its W of micro-batch i after its B of micro-batch i + 2 s:
//
//   p = 3, m = 6    F0 F1 F2 F3 F4 B0 W0 F5 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5
//                      F0 F1 F2 B0 F3 B1 F4 B2 W0 F5 B3 W1 B4 W2 B5 W3 W4 W5
//                         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 W0 F5 B5 W1 W2 W3 W4 W5
//
// The positions end one after the other, as they began. So the next step's first forwards need not wait, unless
// something is summed over all positions before the update (the norm of clipping). From step to step the time is
// (m + p - 1)(t_F + t_B) + max(1, m - 2 (p - 1)) t_W if t_W <= t_F and t_W <= t_B. If m > 2 (p - 1), that is the
// published m (t_F + t_B + t_W) + (p - 1)(t_F + t_B - 2 t_W): no bubble where all three take the same time. Every
// position holds data of up to min(m, 2 p - 1) micro-batches, nearly twice as many as 1f1b at its first position.
#include <algorithm>

#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

constexpr int kLead = 2;

std::vector<Task> tasks_of(const PipelinePlace& place) { return split_tasks(place, kLead); }

StepRule step_rule_of(const PipelinePlace& place) { return split_step_rule(place, kLead); }

int in_flight_of(const PipelinePlace& place, int /*stages_left*/) {
  return std::min(place.micro_batches, kLead * (place.depth - 1) + 1);
}

}  // namespace

constinit const Schedule kZeroBubbleH2 = {
    .name = "zero-bubble-h2",
    .description = "zero-bubble with twice the forwards in advance, for twice the memory (ZB-H2, Qi et al., ICLR 2024)",
    .splits_backward = true,
    .tasks = tasks_of,
    .misfit = misfit_of_chunks,
    .step_rule = step_rule_of,
    .in_flight = in_flight_of,
};

}  // namespace trireme
