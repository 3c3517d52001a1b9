// Helpers with which layers state facts about their calls.
#pragma once

#include <initializer_list>
#include <vector>

#include "model/layers/halo.h"
#include "trireme/layer.h"

namespace trireme {

// -- memory

/// The output and each wanted gradient have storages of their own; nothing is retained for backward.
LayerMemory plain_memory(const CallShapes& call);
/// Like plain_memory, but the first input (or the output) is retained.
LayerMemory keeping_input(const CallShapes& call);
LayerMemory keeping_output(const CallShapes& call);
/// The output is the input with another shape, in the same storage; likewise the gradients.
LayerMemory renamed_memory(const CallShapes& call, int64_t saved);
/// For a layer whose window slides over rows that a split by height borrows from neighbours: the input is retained,
/// extended by its halo if there is one.
LayerMemory window_memory(const CallShapes& call, const Window& rows);
/// Bytes of the retained input with its halo; 0 if there is no halo.
int64_t halo_input_bytes(const CallShapes& call, const Window& rows);

/// Bytes of a saved shape of this number of dims.
inline int64_t shape_bytes(const CallTensor& tensor) { return 8 * int64_t(tensor.shape.size()); }
/// Sets the workspace of a forward that holds these numbers of bytes at its peaks, including the output and saved
/// tensors.
void set_forward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments);
/// Likewise for a backward. The numbers include the gradients of inputs but not the saved tensors.
void set_backward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments);

// -- operators

double bytes_of(const std::vector<CallTensor>& tensors);
/// Inputs, output and parameters are read or written once, by `operators` operators together.
std::vector<OperatorWork> one_pass(const CallShapes& call, double flops, double operators, bool multiplies);

// -- exchanges

/// For images whose windows extend into the neighbours' rows: the exchange of the rows above a worker's share, and of
/// those below.
LayerExchanges halo_exchanges(const CallShapes& call, const Window& rows);

// -- export

/// Padding before both dims, then after both, with which a pool has the output's size if sizes are rounded down. Needed
/// because PyTorch and ONNX round up differently. `input`, `output`: [channels, height, width].
std::vector<int64_t> onnx_pads(const Window& rows, const Window& columns, const Shape& input, const Shape& output);

}  // namespace trireme
