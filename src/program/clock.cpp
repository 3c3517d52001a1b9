#include "program/clock.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "program/engine.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kSameTime = 1e-6;  // units; sums of shares differ only by rounding

class UnitClock : public EngineCosts {
 public:
  UnitClock(const Program& program, const Model& model) : program_(program) {
    timeline_.ranks.resize(program.list_of_rank.size());
    has_weight_part_.assign(program.segments.size(), false);
    for (const std::vector<Instruction>& list : program.lists)
      for (const Instruction& i : list)
        if (i.code == OpCode::backward_weight) has_weight_part_[size_t(i.index)] = true;
    spread_units(model);
  }

  void begin(std::span<const Execution> together, Demand& demand) override {
    for (const Execution& e : together) demand.fixed = std::max(demand.fixed, units_of(at(e)));
  }

  void end(const Execution& e, double now) override {
    if (now <= e.begin) return;
    const Instruction& i = at(e);
    const Stretch next{e.begin, now, i.code, program_.segments[size_t(i.index)].stage, i.micro_batch, e.step - i.lag};
    std::vector<Stretch>& stretches = timeline_.ranks[size_t(e.rank)];
    if (!stretches.empty() && goes_on(stretches.back(), next)) stretches.back().end = now;
    else stretches.push_back(next);
  }

  UnitTimeline take() { return std::move(timeline_); }

 private:
  const Instruction& at(const Execution& e) const { return program_.instructions(e.rank)[size_t(e.index)]; }

  double units_of(const Instruction& i) const {
    double units = description_of(i.code).drawing.units;
    if (units <= 0) return 0;
    if (i.code == OpCode::backward_input && !has_weight_part_[size_t(i.index)])
      units = description_of(OpCode::backward).drawing.units;
    return units * (i.code == OpCode::recompute ? again_ : units_)[size_t(i.index)];
  }

  static bool goes_on(const Stretch& a, const Stretch& b) {
    return a.code == b.code && a.stage == b.stage && a.micro_batch == b.micro_batch && a.batch == b.batch &&
           b.begin - a.end < kSameTime;
  }

  /// Units of a forward of each segment.
  void spread_units(const Model& model) {
    std::map<int, double> flops_of_stage, segments_of_stage;
    std::map<int, std::vector<int>> workers_of_stage;
    std::vector<double> flops(program_.segments.size(), 0), again = flops;
    for (size_t s = 0; s < program_.segments.size(); ++s) {
      const Segment& segment = program_.segments[s];
      for (OpId id : segment.ops) {
        const Op& op = program_.ops[size_t(id)];
        const double own = model.node(op.node).layer->forward_flops(model.input_shapes(op.node));
        flops[s] += own;
        if (!program_.is_restored(SegmentId(s), id)) again[s] += own;
        workers_of_stage.try_emplace(segment.stage, op.mesh.workers);
      }
      flops_of_stage[segment.stage] += flops[s];
      segments_of_stage[segment.stage] += 1;
    }
    std::map<std::vector<int>, int> chunks;  // number of stages with the same workers
    for (const auto& [stage, workers] : workers_of_stage) ++chunks[workers];
    for (size_t s = 0; s < flops.size(); ++s) {
      const int stage = program_.segments[s].stage;
      const double total = flops_of_stage[stage];
      const double share = total > 0 ? flops[s] / total : 1 / segments_of_stage[stage];
      units_.push_back(share / std::max(1, chunks[workers_of_stage[stage]]));
      again_.push_back(flops[s] > 0 ? units_.back() * again[s] / flops[s] : units_.back());
    }
  }

  const Program& program_;
  std::vector<double> units_;          // of a forward, by segment
  std::vector<double> again_;          // of a recomputation, without what is restored
  std::vector<bool> has_weight_part_;  // by segment
  UnitTimeline timeline_;
};

}  // namespace

UnitTimeline unit_clock(const Program& program, const Model& model, int batches) {
  UnitClock clock(program, model);
  if (batches == 0) batches = enough_batches(program);
  const EngineEnd end = execute(program, clock, {.batches = batches});
  check_internal(end.standstills.empty(), "a program that is drawn has passed the checker");
  UnitTimeline timeline = clock.take();
  timeline.makespan = end.seconds;
  timeline.batches = batches;
  if (!program.flushes) return timeline;
  for (const std::vector<Stretch>& stretches : timeline.ranks) {
    const double busy = std::accumulate(stretches.begin(), stretches.end(), 0.0,
                                        [](double sum, const Stretch& s) { return sum + s.end - s.begin; });
    timeline.bubbles.push_back(end.seconds > 0 ? std::max(0.0, 1 - busy / end.seconds) : 0);
  }
  return timeline;
}

}  // namespace trireme
