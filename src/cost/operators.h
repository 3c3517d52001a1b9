// How many operators a layer's call is on a device, and what they touch: the finer points of the datasheet's cost model.
#pragma once

#include <vector>

#include "cost/call_shapes.h"
#include "plan/cluster.h"

namespace trireme {

/// Equal operators, one after the other.
struct OperatorWork {
  double operators = 1;     ///< kernels that are launched one after the other, of equal work; 0: nothing is done
  double flops = 0;         ///< of all of them
  double bytes = 0;         ///< read and written by all of them
  bool multiplies = false;  ///< matrix products, whose efficiency depends on their size; else bound by memory
};

/// One go through a layer.
enum class Pass { forward, input_gradients, weight_gradients };

/// What a pass does, in order. `flops`: of this call's forward. Each pass touches inputs, output and the shard's parameters once, with the
/// forward's FLOPs, except: an embedding and a sampled softmax read the rows that they need only, an LSTM reads its hidden weights in every
/// step, and attention is not fused: its scores (queries x keys of every head) are written to memory and read again by every operator, and
/// its products have two gradients each. As in the implementations of 2020 (Narayanan et al., SC 2021); reads and writes by operator in
/// Ivanov et al., "Data Movement Is All You Need", MLSys 2021.
std::vector<OperatorWork> operator_work(const CallShapes& call, double flops, Pass pass);

/// By the curve in plan/cluster.h, for each operator; operators that are no products compute at the peak.
double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed);
double seconds_of(const std::vector<OperatorWork>& work, const DeviceKind& device, const DeviceSpeed& speed);

}  // namespace trireme
