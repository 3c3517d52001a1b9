// How many operators a layer's call is on a device, and what they touch: the finer points of the datasheet's cost model.
#pragma once

#include "cost/call_shapes.h"
#include "plan/cluster.h"

namespace trireme {

/// One pass over a layer: its forward, or one of the two parts of its backward.
struct OperatorWork {
  double operators = 1;     ///< kernels that are launched one after the other, of equal work; 0: nothing is done
  double flops = 0;         ///< of all of them
  double bytes = 0;         ///< read and written by all of them
  bool multiplies = false;  ///< matrix products, whose efficiency depends on their size; else bound by memory
};

/// `flops`: of this call. Inputs, output and the shard's parameters are touched once, except: an embedding and a sampled softmax read
/// the rows that they need only, an LSTM reads its hidden weights in every step.
OperatorWork operator_work(const CallShapes& call, double flops);

/// By the curve in plan/cluster.h, for each operator; operators that are no products compute at the peak.
double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed);

}  // namespace trireme
