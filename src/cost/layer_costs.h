// Seconds and bytes of one layer call on one worker. Simulator, memory prediction and planner use this interface;
// implementations read a profile of this machine or a datasheet.
#pragma once

#include <cstdint>

#include "trireme/layer.h"
#include "trireme/model.h"

namespace trireme {

/// The source of a prediction.
enum class Basis { measured, interpolated, extrapolated, datasheet, own_times };
const char* name_of(Basis basis);

/// Launches of a pass. The host asks for operators while the device computes, so a run of layers takes as long as the
/// slower of both, which is less than the sum of its calls.
struct Launches {
  double host = 0;  ///< seconds of the host to ask for the pass's operators
  double wait = 0;  ///< the part of the pass's seconds in which the device waits for the host, if the call runs alone

  Launches& operator+=(const Launches& other) {
    host += other.host;
    wait += other.wait;
    return *this;
  }
};

/// Seconds of one call on a device that runs nothing else.
struct LayerCost {
  double forward = 0;
  double backward = 0;        ///< the whole backward
  double backward_input = 0;  ///< the two parts, for a layer that splits its backward; otherwise `backward` and 0
  double backward_weight = 0;
  Launches forward_launches = {}, backward_input_launches = {}, backward_weight_launches = {};
  double crowding =
      1;  ///< factor on the call's time while every core of the machine computes; 1 for a device of its own
  Basis basis = Basis::measured;
  double stretch = 1;  ///< extrapolation factor: samples requested over samples measured, or the inverse, at least 1
};

/// Costs of one model at one precision. `tensor` is the degree of the tensor axis. `option` is one of the layer's
/// options at that degree. `samples` are those of this worker's call (its data shard of a micro-batch). `kind` is the
/// device's (Device::kind). Results are cached. Thread-safe.
class LayerCosts {
 public:
  virtual ~LayerCosts() = default;
  virtual LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                            int kind = -1) const = 0;
  virtual LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const = 0;
  /// Seconds of one pass that sums the gradients of `contributors` workers and updates `elements` weights.
  virtual double update_seconds(int64_t elements, int contributors, int kind = -1) const = 0;
  /// Factor on update_seconds() while every core of this machine updates weights, like LayerCost::crowding.
  virtual double update_crowding(int /*contributors*/) const { return 1; }
  /// Layers that are equal (kind, attributes, shapes) have equal costs if this number is equal too.
  virtual int cost_class(NodeId node) const { return 0; }
};

}  // namespace trireme
