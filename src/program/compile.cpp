#include "program/compile.h"

#include <algorithm>

#include "base/error.h"
#include "program/check.h"
#include "program/graph.h"
#include "program/schedules/schedule.h"

namespace trireme {
namespace {

/// Writes the instruction list of every rank of one stage: the schedule's tasks, each spread over the stage's items.
class StageWriter {
 public:
  StageWriter(const std::vector<StageItem>& items, const Program& program, int rank)
      : items_(items), program_(program), rank_(rank) {}

  std::vector<Instruction> run(const std::vector<Task>& tasks) {
    if (!program_.training) synchronize_buffers();
    size_t last_backward = tasks.size();
    for (size_t i = 0; i < tasks.size(); ++i)
      if (tasks[i].backward) last_backward = i;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (!tasks[i].backward) forward(tasks[i].micro_batch);
      else if (program_.training) backward(tasks[i].micro_batch, i == last_backward);
    }
    if (!program_.training) return std::move(list_);
    if (program_.keeps_gradients) list_.push_back({OpCode::clip_gradients});
    for (BucketId b : held_buckets()) list_.push_back({OpCode::optimizer_step, b});
    return std::move(list_);
  }

 private:
  bool loads(SegmentId segment) const {
    for (OpId id : program_.segments[size_t(segment)].ops)
      for (ValueId input : program_.ops[size_t(id)].inputs)
        if (program_.values[size_t(input)].loaded) return true;
    return false;
  }

  void forward(int k) {
    for (const StageItem& item : items_)
      if (item.kind == StageItem::Kind::segment && loads(item.index)) {
        list_.push_back({OpCode::load_batch, -1, k});
        break;
      }
    for (const StageItem& item : items_) {
      const Move* move = item.kind == StageItem::Kind::segment ? nullptr : &program_.moves[size_t(item.index)];
      switch (item.kind) {
        case StageItem::Kind::segment: list_.push_back({OpCode::forward, item.index, k}); break;
        case StageItem::Kind::move:
          if (move->forward_moves) list_.push_back({OpCode::redistribute, item.index, k});
          break;
        case StageItem::Kind::send: list_.push_back({OpCode::send, item.index, k}); break;
        case StageItem::Kind::receive: list_.push_back({OpCode::receive, item.index, k}); break;
      }
    }
  }

  void backward(int k, bool last) {
    for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
      if (item->kind == StageItem::Kind::segment) {
        list_.push_back({OpCode::backward, item->index, k});
        if (last) announce_buckets(item->index);
        continue;
      }
      if (!program_.moves[size_t(item->index)].backward_moves) continue;
      switch (item->kind) {
        case StageItem::Kind::move: list_.push_back({OpCode::redistribute, item->index, k, true}); break;
        case StageItem::Kind::send: list_.push_back({OpCode::receive, item->index, k, true}); break;
        case StageItem::Kind::receive: list_.push_back({OpCode::send, item->index, k, true}); break;
        case StageItem::Kind::segment: break;
      }
    }
  }

  /// Buckets that no earlier segment of this stage (later in backward) uses are complete now.
  void announce_buckets(SegmentId segment) {
    for (BucketId b : program_.segment_buckets[size_t(segment)]) {
      const auto& holders = program_.buckets[size_t(b)].holders;
      if (!std::binary_search(holders.begin(), holders.end(), rank_)) continue;
      bool used_earlier = false;
      for (const StageItem& item : items_) {
        if (item.kind != StageItem::Kind::segment) continue;
        if (item.index == segment) break;
        const auto& used = program_.segment_buckets[size_t(item.index)];
        used_earlier = used_earlier || std::find(used.begin(), used.end(), b) != used.end();
      }
      if (!used_earlier) list_.push_back({OpCode::reduce_gradients, b});
    }
  }

  std::vector<BucketId> held_buckets() const {
    std::vector<BucketId> held;
    for (const Instruction& i : list_)
      if (i.code == OpCode::reduce_gradients) held.push_back(i.index);
    return held;
  }

  void synchronize_buffers() {
    for (const StageItem& item : items_) {
      if (item.kind != StageItem::Kind::segment) continue;
      for (OpId id : program_.segments[size_t(item.index)].ops)
        if (program_.ops[size_t(id)].mesh.data > 1 && program_.ops[size_t(id)].has_buffers)
          list_.push_back({OpCode::synchronize_buffers, id});
    }
  }

  const std::vector<StageItem>& items_;
  const Program& program_;
  int rank_;
  std::vector<Instruction> list_;
};

}  // namespace

Program compile(const Model& model, const Plan& plan, const CompileOptions& options) {
  Program program;
  program.training = options.training;
  program.keeps_gradients = options.clip_gradients || options.keep_gradients;
  program.devices = plan.devices;
  program.micro_batches = plan.micro_batches;
  build_graph(model, plan, options, program);
  build_buckets(model, options, program);
  auto stages = build_segments(plan, options, program);

  program.ranks.resize(size_t(plan.devices));
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    auto tasks = schedule_tasks(plan.schedule, int(s), int(plan.stages.size()), plan.micro_batches);
    for (int rank : plan.stages[s]) program.ranks[size_t(rank)] = StageWriter(stages[s], program, rank).run(tasks);
  }
  check_program(program, model, plan.name.empty() ? "plan" : "plan " + plan.name);
  return program;
}

}  // namespace trireme
