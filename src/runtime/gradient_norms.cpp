#include "runtime/gradient_norms.h"

#include <algorithm>

namespace trireme {

std::string obstacle_to_gradient_norms(const Program& program) {
  const auto all_workers = [&](const Bucket& b) {
    return b.contributors.empty() || int(b.contributors.size()) == program.devices;
  };
  if (!program.keeps_gradients) return "the program keeps no gradients";
  if (std::any_of(program.ops.begin(), program.ops.end(), [](const Op& op) { return op.stage > 0; }))
    return "the plan is a pipeline";
  const bool whole =
      std::all_of(program.ops.begin(), program.ops.end(), [](const Op& op) { return op.mesh.tensor == 1; });
  if (!whole || !std::all_of(program.buckets.begin(), program.buckets.end(), all_workers))
    return "the plan divides layers";
  if (program.compression.kind != Compression::Kind::none) return "gradients are compressed";
  if (std::any_of(program.segments.begin(), program.segments.end(), [](const Segment& s) { return s.splits_backward; }))
    return "the schedule computes the gradients of weights later than those of inputs";
  if (program.devices == 1 && program.micro_batches == 1)
    return "one worker computes the whole batch at once; use micro-batches";
  return "";
}

}  // namespace trireme
