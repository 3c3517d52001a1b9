// ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 6; the order is the one that Qi et al.,
// "Pipeline Parallelism with Controllable Memory", NeurIPS 2024, give for equal times): the stages go through the
// workers and back, like a V. Of 2 p stages worker s has s and 2 p - 1 - s, so the worker with the first stage also has
// the last one: the backward of a micro-batch begins where its forward ends. Stages are half as large as under 1f1b.
//
// Position s does 2 (p - s) - 1 forwards in its first stage, which is when the first micro-batch comes back; then s
// times a forward in its second stage and one in its first; then p - s times F, B and W in its second stage. From then
// on F, B, W in the first stage and F, B, W in the second take turns. When no forward is left: s times a B in both
// stages, the remaining B of the first stage with a W each, and the remaining W. With p = 2, m = 4, + for the second
// stage:
//
//   F0 F1 F2 F0+ B0+ W0+ F1+ B1+ W1+ F3 B0 W0 F2+ B2+ W2+ B1 W1 F3+ B3+ W3+ B2 W2 B3 W3
//      F0 F0+ F1 F1+ B0+ W0+ F2 B0 W0 F2+ B1+ W1+ F3 B1 W1 F3+ B2+ W2+ B2 B3+ B3 W2 W3+ W3
//
// At most 2 p micro-batches of half a worker's layers wait for their W: what 1f1b holds at its first position. If t_F =
// t_B = t_W and m >= 2 p - 1, there is no bubble from step to step. If t_W <= t_F = t_B, it is half the bubble of
// ZB-H2: (p - 1)(t_F + t_B - 2 t_W), with the times of a stage.
#include <algorithm>

#include <fmt/format.h>

#include "schedule/kinds.h"

namespace trireme {
namespace {

constexpr int kStages = 2;  // of a worker

/// A position's list under construction. A task that does not exist, because all of its kind are done or its
/// micro-batch is not there yet, is left out.
class Tasks {
 public:
  explicit Tasks(int micro_batches) : micro_batches_(micro_batches) {}

  void forward(int chunk) { add(TaskKind::forward, chunk, forwards_[chunk], micro_batches_); }
  void input(int chunk) { add(TaskKind::backward_input, chunk, inputs_[chunk], forwards_[chunk]); }
  void weight(int chunk) { add(TaskKind::backward_weight, chunk, weights_[chunk], inputs_[chunk]); }
  void all(int chunk) {
    forward(chunk);
    input(chunk);
    weight(chunk);
  }
  bool has_forwards() const { return std::min(forwards_[0], forwards_[1]) < micro_batches_; }
  bool has_inputs() const { return std::min(inputs_[0], inputs_[1]) < micro_batches_; }

  std::vector<Task> finish() {
    for (const int chunk : {1, 0})
      while (weights_[chunk] < micro_batches_) weight(chunk);
    tasks_.push_back({TaskKind::update, 0, -1});
    return std::move(tasks_);
  }

 private:
  void add(TaskKind kind, int chunk, int& done, int most) {
    if (done < most) tasks_.push_back({kind, chunk, done++});
  }

  const int micro_batches_;
  int forwards_[kStages] = {}, inputs_[kStages] = {}, weights_[kStages] = {};  // done, by chunk
  std::vector<Task> tasks_;
};

std::vector<Task> tasks_of(const PipelinePlace& place) {
  const int s = place.position, p = place.depth;
  Tasks tasks(place.micro_batches);
  for (int i = 0; i < 2 * (p - s) - 1; ++i) tasks.forward(0);
  for (int i = 0; i < s; ++i) {
    tasks.forward(1);
    tasks.forward(0);
  }
  for (int i = 0; i < p - s; ++i) tasks.all(1);
  while (tasks.has_forwards()) {
    tasks.all(0);
    tasks.all(1);
  }
  for (int i = 0; i < s; ++i) {
    tasks.input(0);
    tasks.input(1);
  }
  for (int i = 0; i < p - s; ++i) {
    tasks.input(0);
    tasks.weight(0);
  }
  while (tasks.has_inputs()) {
    tasks.input(1);
    tasks.input(0);
  }
  return tasks.finish();
}

Schedule::Misfit misfit_of(const PipelinePlace& place) {
  if (place.chunks == kStages) return {};
  return {fmt::format("it runs {} stages per worker, but the plan has {}", kStages, place.chunks),
          place.chunks == 1 ? fmt::format("with one stage per worker use schedule \"{}\"", kZeroBubble.name)
                            : fmt::format("give every worker {}", kStages)};
}

/// No fill; main, of one of the worker's two stages, which the rule treats as equal: (2 m + max(p - 1, 2 (p - 1) - (m -
/// 1))) (t_F + t_B) + (2 m - min(m - 1, 2 (p - 1))) t_W.
StepRule step_rule_of(const PipelinePlace& place) {
  const int m = place.micro_batches, back = place.depth - 1;
  return {.main_compute = double(2 * m + std::max(back, 2 * back - (m - 1))),
          .main_weight = double(2 * m - std::min(m - 1, 2 * back)),
          .once = kStages,
          .least_weight = double(m)};
}

int in_flight_of(const PipelinePlace& place, int stages_left) {
  const int m = place.micro_batches, p = place.depth;
  const int position = kZeroBubbleV.position_of(kStages * p - stages_left, p);
  return std::min({2 * m, 2 * p, m + 1 + position});
}

}  // namespace

constinit const Schedule kZeroBubbleV = {
    .name = "zero-bubble-v",
    .description =
        "zero-bubble with two stages per worker, there and back, in the memory of 1f1b (ZB-V, Qi et al., "
        "ICLR 2024)",
    .splits_backward = true,
    .chunked = true,
    .v_shaped = true,
    .tasks = tasks_of,
    .misfit = misfit_of,
    .step_rule = step_rule_of,
    .in_flight = in_flight_of,
};

}  // namespace trireme
