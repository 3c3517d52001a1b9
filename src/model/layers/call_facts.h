// What several layers share in stating facts of their calls (trireme/layer_facts.h).
#pragma once

#include <initializer_list>
#include <vector>

#include "trireme/layer_facts.h"
#include "trireme/layers/halo.h"

namespace trireme {

// -- memory

/// An output of its own, the gradients that are wanted in storages of their own, nothing kept.
LayerMemory plain_memory(const CallShapes& call);
/// The same, and the first input is kept; or the output.
LayerMemory keeping_input(const CallShapes& call);
LayerMemory keeping_output(const CallShapes& call);
/// The output is the input under another shape, and so are the gradients.
LayerMemory renamed_memory(const CallShapes& call, int64_t saved);
/// Of a layer whose window slides over rows that a split by height borrows from neighbours: the input is kept, or
/// extended by its halo.
LayerMemory window_memory(const CallShapes& call, const Window& rows);
/// Bytes of the input with the halo that it is kept with; 0 where there is none.
int64_t halo_input_bytes(const CallShapes& call, const Window& rows);

/// Bytes of a saved shape of so many dims.
inline int64_t shape_bytes(const CallTensor& tensor) { return 8 * int64_t(tensor.shape.size()); }
/// The workspace of a forward that holds these bytes at its busiest moments, output and saved tensors included.
void set_forward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments);
/// Likewise of a backward, gradients of inputs included, what was saved not.
void set_backward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments);

// -- operators

double bytes_of(const std::vector<CallTensor>& tensors);
/// Inputs, output and parameters are touched once, by so many operators together.
std::vector<OperatorWork> one_pass(const CallShapes& call, double flops, double operators, bool multiplies);

// -- exchanges

/// Images whose windows reach into the neighbours' rows: at an end of a worker's share the rows above, at the other
/// those below.
LayerExchanges halo_exchanges(const CallShapes& call, const Window& rows);

// -- export

/// Padding before both dims, then after both, that gives a pool the output's size with sizes rounded down: PyTorch and
/// ONNX do not round up alike. `input`, `output`: [channels, height, width].
std::vector<int64_t> onnx_pads(const Window& rows, const Window& columns, const Shape& input, const Shape& output);

}  // namespace trireme
