// ZB-2p (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 3.1): W fills the gaps, within the memory of
// 2 p micro-batches. The authors search the order with measured times. Here the order depends on the pipeline only: it
// is searched (fill_gaps.h) for t_F : t_B : t_W = 5 : 5 : 3, which is typical of Transformers, and without messages. A
// micro-batch counts whole until its B, and half until its W.
//
// Position s first does 2 (p - 1 - s) forwards. In the steady state F, B and W take turns. Until then B goes ahead, so
// that W are left for the gaps at the end:
//
//   p = 3, m = 6    F0 F1 F2 F3 F4 B0 F5 B1 W0 W1 B2 W2 B3 W3 B4 W4 B5 W5
//                      F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 W0 W1 B4 W2 B5 W3 W4 W5
//                         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 W0 W1 W2 W3 W4 W5
//
// Position s holds data of up to min(m, 2 p + 1 + 2 s) micro-batches until their W, of which at most 2 (p - 1 - s) + 1
// have no B yet. The time from step to step is at least max(m (t_F + t_B + t_W), (m + p - 1)(t_F + t_B) + t_W): the
// work of a position, or the way of all micro-batches through the last position and of the last one back. If t_F = t_B,
// t_W is 0.5 to 1 times as long and m >= 4 p, that is the time. With fewer micro-batches, and where t_W is nearly t_F,
// ZB-H2 may be faster.
#include <algorithm>

#include "schedule/fill_gaps.h"
#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

constexpr int kLead = 2;
constexpr int kWhole = 2, kKept = 1;  // memory, in halves of a micro-batch

std::vector<Task> tasks_of(const PipelinePlace& place) {
  std::vector<Task> tasks = fill_gaps(place, {.forward = 5,
                                              .backward_input = 5,
                                              .backward_weight = 3,
                                              .whole = kWhole,
                                              .kept = kKept,
                                              .most = int64_t(kLead) * place.depth * kWhole});
  tasks.push_back({TaskKind::update, 0, -1});
  return tasks;
}

/// The rule of ZB-H2: exact where all three parts take the same time, too long where W is shorter.
StepRule step_rule_of(const PipelinePlace& place) { return split_step_rule(place, kLead); }

int in_flight_of(const PipelinePlace& place, int stages_left) {
  return std::min(place.micro_batches, 2 * kLead * place.depth + 1 - 2 * stages_left);
}

}  // namespace

constinit const Schedule kZeroBubble2p = {
    .name = "zero-bubble-2p",
    .description = "zero-bubble with weight gradients in the gaps, for twice the memory (ZB-2p, Qi et al., ICLR 2024)",
    .splits_backward = true,
    .tasks = tasks_of,
    .misfit = misfit_of_chunks,
    .step_rule = step_rule_of,
    .in_flight = in_flight_of,
};

}  // namespace trireme
