// Writes the instruction list of one worker. Each of the schedule's tasks is expanded into the items of the worker's
// stages.
#pragma once

#include <set>
#include <vector>

#include "program/graph.h"
#include "program/pipeline.h"
#include "program/program.h"

namespace trireme {

class StageWriter {
 public:
  /// `stages`: the items of each stage of the plan. `held`: the buckets that the worker holds, ascending.
  /// `sends_first`: sends gradients before it sums its own (CompileOptions::overlap).
  StageWriter(const std::vector<std::vector<StageItem>>& stages, const WorkerGroup& group,
              const std::vector<BucketId>& held, bool recompute_last, bool sends_first, const Program& program);

  std::vector<Instruction> run(const std::vector<Task>& tasks);

 private:
  const std::vector<StageItem>& items_of(const Task& task) const {
    return stages_[size_t(group_.stages[size_t(task.chunk)])];
  }
  bool recomputes(int run, int micro_batch) const;
  void recompute(int run, const Task& task);
  bool loads(SegmentId segment) const;
  bool is_wide(BucketId bucket) const;
  void put(OpCode code, int index, const Task& task, bool adjoint = false);
  void forward(const Task& task);
  void backward(const Task& task);
  void backward_weight(const Task& task);
  /// Fills after_sends_ for the instructions of one task: those from `begin` to the end of the list.
  void note_sends(size_t begin);
  void synchronize_buffers();
  void insert_reductions();
  void insert_gathers();

  const std::vector<std::vector<StageItem>>& stages_;
  const WorkerGroup& group_;
  const std::set<BucketId> held_;
  const bool recompute_last_, sends_first_;
  const Program& program_;
  std::vector<Instruction> list_;
  /// With sends_first_, by instruction: the position of the last instruction of the same task that sends gradients, if
  /// it comes later; otherwise the instruction's own position.
  std::vector<size_t> after_sends_;
};

}  // namespace trireme
