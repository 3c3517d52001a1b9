// First half of compilation: the model's graph under a plan, as values, redistributions, ops and segments.
#pragma once

#include <vector>

#include "program/compile_options.h"
#include "program/program.h"

namespace trireme {

/// One entry of a stage's forward order; backward is its reverse.
struct StageItem {
  enum class Kind { segment, redistribution, send, receive };
  Kind kind;
  int index;     ///< segment or redistribution
  int run = -1;  ///< the recomputed run (Program::recomputed_runs) to which it belongs
};

/// Fills values, redistributions, ops and parameters of `program`. `delays`: by stage, the delay of its weights in
/// batches.
void build_graph(const Model& model, const Plan& plan, const CompileOptions& options, const std::vector<int>& delays,
                 Program& program);

/// Groups parameter shards into flat buckets, in the order in which their gradients become complete (reverse order of
/// use). A bucket closes when it reaches its size, and shards are never split: PyTorch DDP's rule, with a small first
/// bucket. Under zero2 and zero3 a bucket also ends with its block, because its gradient (and its weights) are gathered
/// and released block by block.
void build_buckets(const Model& model, const CompileOptions& options, Program& program);

/// Cuts each stage into segments: at redistributions, where a run of recomputed layers begins or ends, and where a
/// bucket's gradient becomes complete, so that its other holders need not wait for the rest of backward. Under
/// Plan::recompute_communication the segments of one label, and the redistributions between them, are one recomputed
/// run; otherwise each recomputed segment is a run. Requires the buckets. Returns each stage's items in forward order.
std::vector<std::vector<StageItem>> build_segments(const Plan& plan, const CompileOptions& options, Program& program);

/// True if a pattern of CompileOptions::frozen matches this parameter: its name, or "layer1.*" for all names that start
/// with "layer1.".
bool freezes(const std::string& pattern, const std::string& parameter);
/// True if one of the patterns does.
bool freezes(const std::vector<std::string>& patterns, const std::string& parameter);

/// The same layout in canonical form: an axis of degree 1 is Replicate.
Layout normalized(Layout layout);

}  // namespace trireme
