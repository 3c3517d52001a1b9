// First half of compiling: the model's graph under a plan as values, moves, ops and segments.
#pragma once

#include <vector>

#include "program/compile_options.h"
#include "program/program.h"

namespace trireme {

/// One entry of a stage's forward order; backward is its reverse.
struct StageItem {
  enum class Kind { segment, move, send, receive };
  Kind kind;
  int index;  ///< segment or move
};

/// Fills values, moves, ops and parameters of `program`. `delays`: by stage, of the weights.
void build_graph(const Model& model, const Plan& plan, const CompileOptions& options, const std::vector<int>& delays,
                 Program& program);

/// Groups parameter shards into flat buckets in the order in which their gradients become complete (reverse order of
/// use; a bucket closes when it reaches its size, shards are never split: PyTorch DDP's rule, with a small first
/// bucket). Under zero2 and zero3 a bucket also ends with its block: its gradient (and its weights) come and go block
/// by block.
void build_buckets(const Model& model, const CompileOptions& options, Program& program);

/// Cuts each stage into segments: at moves, where a run of recomputed layers begins or ends, and where a bucket's
/// gradient becomes complete, so that the other holders need not wait for the rest of backward. Needs the buckets.
/// Returns each stage's items in forward order.
std::vector<std::vector<StageItem>> build_segments(const Plan& plan, const CompileOptions& options, Program& program);

/// Whether a pattern of CompileOptions::frozen means this parameter: its name, or "layer1.*" for all that begin so.
bool freezes(const std::string& pattern, const std::string& parameter);

/// The same layout written in one way: an axis of degree 1 is Replicate.
Layout normalized(Layout layout);

}  // namespace trireme
