// A program as one worker executes it: what is known before the first step.
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
  /// References outlive it. All ranks together: groups are formed.
  PreparedProgram(const Program& program, const WorkerContext& context, SubGroups& groups, LayerBuffers& buffers);

  const Program* program = nullptr;
  std::vector<OpBinding> bindings;             ///< by op; unbound (op == nullptr) on other stages
  std::vector<std::vector<int>> uses;          ///< count_reads()
  std::map<int, std::vector<ValueId>> loaded;  ///< loaded_values()
  std::vector<BucketId> trainable;             ///< buckets of this worker that are updated
  std::vector<std::string> texts;  ///< of this worker's instructions; empty where no flight recorder keeps them

  std::vector<TrackedTable> tracked_tables() const;

  /// Lets go of cached views into memory that comes and goes (divided weights and gradients).
  void drop_views(BucketId bucket, bool of_gradients);
};

}  // namespace trireme
