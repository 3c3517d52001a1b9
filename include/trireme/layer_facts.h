// What one call of a layer holds in memory, computes and communicates, derived from shapes alone: nothing is run. Each
// layer's file states these facts (Layer::memory, work, exchanges). Tests compare them with real calls (tests/cost/).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/layer.h"
#include "trireme/placement.h"

namespace trireme {

struct CallTensor {
  Shape shape;          ///< local shape; dim 0 is the batch, if there is one
  int64_t element = 4;  ///< bytes of one element

  int64_t count() const { return element_count(shape); }
  int64_t bytes() const { return count() * element; }
};

/// The tensors of one call of a layer on one worker. The layer and the option must outlive this object.
struct CallShapes {
  const Layer* layer = nullptr;
  const ShardingOption* option = nullptr;
  int tensor = 1;
  /// Size of the data group that the call communicates with (global batch norm); 1: no communication over the data
  /// axis.
  int data = 1;
  int64_t samples = 0;
  int64_t compute = 4;  ///< bytes of an element of the compute dtype
  int64_t master = 4;   ///< bytes of an element of weights and losses
  std::vector<CallTensor> inputs;
  std::vector<bool> wanted;  ///< per input: true if its gradient is computed
  CallTensor output;
  std::vector<CallTensor> parameters;
};

/// Memory of one call, in bytes. A tensor that is retained for two reasons is counted once, by storage. A workspace is
/// the peak memory of a call without its output and its saved tensors (backward: without the input gradients). Memory
/// that libraries allocate inside their kernels (oneDNN for convolutions and for bfloat16 products) is not included.
struct LayerMemory {
  int64_t output = 0;             ///< size of the output's own storage; 0 if the output shares an input's storage
  int output_shares_input = -1;   ///< index of that input; -1: none
  int64_t saved = 0;              ///< retained from forward to backward, besides inputs and output
  std::vector<bool> keeps_input;  ///< per input: true if its storage is retained from forward to backward
  bool keeps_output = false;
  int64_t forward_workspace = 0;   ///< peak of the tensors that live only within forward
  int64_t backward_workspace = 0;  ///< likewise for backward, without the input gradients
  /// The part of backward_workspace that is live when a parameter gradient is first accumulated, or later. nullopt: all
  /// of it.
  std::optional<int64_t> parameter_workspace = {};
  /// Workspaces of the two parts of a split backward; the first without the input gradients. nullopt: that of the whole
  /// backward.
  std::optional<int64_t> input_workspace = {}, weight_workspace = {};
  /// Bytes retained in place of `saved` from the first part to the second, besides the output gradient. nullopt: as
  /// `saved`.
  std::optional<int64_t> deferred = {};
  bool defers_gradient = true;  ///< the output gradient's storage is retained until the second part
  /// Bytes per input; 0 if no gradient is computed, or if it shares the output gradient's storage.
  std::vector<int64_t> input_gradients;
};

/// One communication among the workers of a group, or several equal ones, one after the other.
struct Exchange {
  RedistributionKind kind = RedistributionKind::none;
  /// As in Links::collective. send_receive: bytes over the boundary between two neighbours, both directions together.
  double bytes = 0;
  double times = 1;
  bool over_data = false;  ///< true: over the data group; false: over the tensor group
};

/// Communication of a call, in order. A split backward communicates in its first part.
struct LayerExchanges {
  std::vector<Exchange> forward, backward;
};

/// Equal operators that run one after the other.
struct OperatorWork {
  double operators = 1;     ///< number of kernels of equal work, launched one after the other; 0: no work
  double flops = 0;         ///< FLOPs of all of them
  double bytes = 0;         ///< bytes read and written by all of them
  bool multiplies = false;  ///< true: matrix products, whose efficiency depends on their size; false: bound by memory
};

/// One pass through a layer.
enum class Pass { forward, input_gradients, weight_gradients };

}  // namespace trireme
