// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024): 1F1B with a split backward. B is the gradient of
// the inputs; the previous position waits for it. W is the gradient of the weights; no other position waits for it.
// Position s does its W of micro-batch i after its B of micro-batch i + s, and the remaining W at the end:
//
//   p = 3, m = 4    F0 F1 F2       B0 W0 F3 B1 W1 B2 W2 B3 W3
//                      F0 F1    B0 F2 B1 W0 F3 B2 W1 B3 W2 W3
//                         F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3
//
// As under 1f1b, min(m, p - s) micro-batches are between F and B. Up to s more may wait for their W, so no position
// holds data of more than min(m, p) micro-batches, which is what 1f1b holds at its first position. If t_W <= t_F and
// t_W <= t_B, the time is exactly (m + p - 1)(t_F + t_B) + max(1, m - p + 1) t_W. If m >= p, that is the published m
// (t_F + t_B + t_W) + (p - 1)(t_F + t_B - t_W); with fewer micro-batches, a position has too few W to fill its gaps.
// The bubble of 1f1b is (p - 1)(t_F + t_B + t_W). A larger t_W leaves more bubble, but never as much as 1f1b.
#include <algorithm>

#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

constexpr int kLead = 1;

std::vector<Task> tasks_of(const PipelinePlace& place) { return split_tasks(place, kLead); }

StepRule step_rule_of(const PipelinePlace& place) { return split_step_rule(place, kLead); }

int in_flight_of(const PipelinePlace& place, int /*stages_left*/) { return std::min(place.micro_batches, place.depth); }

}  // namespace

constinit const Schedule kZeroBubble = {
    .name = "zero-bubble",
    .description = "1f1b with weight gradients moved into the bubble (ZB-H1, Qi et al., ICLR 2024)",
    .splits_backward = true,
    .tasks = tasks_of,
    .misfit = misfit_of_chunks,
    .step_rule = step_rule_of,
    .in_flight = in_flight_of,
};

}  // namespace trireme
