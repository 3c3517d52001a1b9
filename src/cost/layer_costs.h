// Seconds and bytes of one layer's call on one worker: what simulator, memory prediction and planner ask, whoever knows
// the answer (a profile of this machine, a datasheet).
#pragma once

#include <cstdint>

#include "trireme/layer_facts.h"
#include "trireme/model.h"

namespace trireme {

/// Where a prediction comes from.
enum class Basis { measured, interpolated, extrapolated, datasheet };
const char* name_of(Basis basis);

/// Seconds of one call with the device for itself.
struct LayerCost {
  double forward = 0;
  double backward = 0;        ///< whole
  double backward_input = 0;  ///< the two parts of a layer that splits its backward; else `backward` and 0
  double backward_weight = 0;
  double crowding =
      1;  ///< by this factor a call takes longer while every core of the machine computes; 1 for devices of their own
  Basis basis = Basis::measured;
  double stretch = 1;  ///< extrapolated: from so many times fewer (or more) samples
};

/// One model at one precision. `tensor` is the degree of the tensor axis, `option` one of the layer's options at that
/// degree; `samples` are those of this worker's call (its data shard of a micro-batch); `kind` is the device's
/// (Device::kind). Answers are kept: asking again is cheap. Thread-safe.
class LayerCosts {
 public:
  virtual ~LayerCosts() = default;
  virtual LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                            int kind = -1) const = 0;
  virtual LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const = 0;
  /// One pass that sums the gradients of `contributors` workers and updates `elements` weights.
  virtual double update_seconds(int64_t elements, int contributors, int kind = -1) const = 0;
};

}  // namespace trireme
