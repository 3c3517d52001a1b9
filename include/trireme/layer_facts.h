// What a layer's call holds, computes and exchanges, told from shapes alone: nothing is run. Each layer's file states
// it of itself (Layer::memory, work, exchanges); tests hold it to what calls really do (tests/cost/).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/layer.h"
#include "trireme/placement.h"

namespace trireme {

struct CallTensor {
  Shape shape;          ///< local, the batch (if it has one) as dim 0
  int64_t element = 4;  ///< bytes of one element

  int64_t count() const { return element_count(shape); }
  int64_t bytes() const { return count() * element; }
};

/// The tensors of one layer's call on one worker. The layer and the option outlive this.
struct CallShapes {
  const Layer* layer = nullptr;
  const ShardingOption* option = nullptr;
  int tensor = 1;
  int data = 1;  ///< members of the data group that the call communicates with (global batch norm); 1: it keeps to its
                 ///< own samples
  int64_t samples = 0;
  int64_t compute = 4;  ///< bytes of an element that layers compute with
  int64_t master = 4;   ///< of weights and losses
  std::vector<CallTensor> inputs;
  std::vector<bool> wanted;  ///< by input: its gradient is made
  CallTensor output;
  std::vector<CallTensor> parameters;
};

/// Bytes of one call. A tensor that is kept in two ways is counted once, by storage. Workspaces are what a call holds
/// at its peak besides its output and what it saves (backward: besides the inputs' gradients); what a layer states of
/// them is without what libraries take within their kernels (oneDNN for convolutions and for products in bfloat16).
struct LayerMemory {
  int64_t output = 0;             ///< bytes of a storage of its own; 0 where the output shares an input's storage
  int output_shares_input = -1;   ///< index of that input
  int64_t saved = 0;              ///< kept from forward to backward, besides inputs and output
  std::vector<bool> keeps_input;  ///< by input: its storage is kept from forward to backward
  bool keeps_output = false;
  int64_t forward_workspace = 0;   ///< greatest sum of what lives within forward only
  int64_t backward_workspace = 0;  ///< likewise, besides the gradients of inputs
  /// Of backward_workspace: what lives when a parameter's gradient is first added to, or after. Not known: all of it.
  std::optional<int64_t> parameter_workspace = {};
  /// Of a backward in two parts, each one's; of the first besides the gradients of inputs. Not known: that of the
  /// whole.
  std::optional<int64_t> input_workspace = {}, weight_workspace = {};
  /// What is kept in place of `saved` from the first part to the second, besides the output gradient. Not known: as
  /// `saved`.
  std::optional<int64_t> deferred = {};
  bool defers_gradient = true;  ///< the output gradient's storage is kept as long
  std::vector<int64_t>
      input_gradients;  ///< bytes, by input; 0 where none is made, or it shares the output gradient's storage
};

/// One exchange among the workers of a group, or the same one several times, one after the other.
struct Exchange {
  RedistributionKind kind = RedistributionKind::none;
  double bytes =
      0;  ///< as of Links::collective; send_receive: over the border between two neighbours, both ways together
  double times = 1;
  bool over_data = false;  ///< among the data group; else the tensor group
};

/// In the order of a call. A backward that is split communicates in its first part.
struct LayerExchanges {
  std::vector<Exchange> forward, backward;
};

/// Equal operators, one after the other.
struct OperatorWork {
  double operators = 1;     ///< kernels that are launched one after the other, of equal work; 0: nothing is done
  double flops = 0;         ///< of all of them
  double bytes = 0;         ///< read and written by all of them
  bool multiplies = false;  ///< matrix products, whose efficiency depends on their size; else bound by memory
};

/// One go through a layer.
enum class Pass { forward, input_gradients, weight_gradients };

}  // namespace trireme
