// A program as one worker executes it: everything that is known before the first step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/layer_call.h"
#include "runtime/row_set.h"
#include "runtime/worker/context.h"
#include "runtime/worker/layer_buffers.h"
#include "runtime/worker/sub_groups.h"

namespace trireme {

struct PreparedProgram {
  /// References must outlive this object. All ranks must construct it together, because groups are formed.
  PreparedProgram(const Program& program, const WorkerContext& context, SubGroups& groups, LayerBuffers& buffers);

  const Program* program = nullptr;
  std::vector<OpBinding> bindings;             ///< by op; unbound (op == nullptr) on other stages
  std::vector<std::vector<int>> uses;          ///< count_reads()
  std::map<int, std::vector<ValueId>> loaded;  ///< loaded_values()
  std::vector<BucketId> trainable;             ///< buckets of this worker that are updated
  std::vector<std::string> texts;  ///< of this worker's instructions; empty if no flight recorder stores them

  std::vector<TrackedTable> tracked_tables() const;

  /// Releases cached views into memory that is allocated for a while (divided weights and gradients).
  void drop_views(BucketId bucket, bool of_gradients);
};

}  // namespace trireme
