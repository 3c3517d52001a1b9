// What a layer's call holds in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme {

/// Bytes of one call. A tensor that is kept in two ways is counted once, by storage.
struct LayerMemory {
  int64_t output = 0;              ///< bytes of a storage of its own; 0 where the output shares an input's storage
  int output_shares_input = -1;    ///< index of that input
  int64_t saved = 0;               ///< kept from forward to backward, besides inputs and output
  std::vector<bool> keeps_input;   ///< by input: its storage is kept from forward to backward
  bool keeps_output = false;
  int64_t forward_workspace = 0;   ///< greatest sum of what lives within forward only
  int64_t backward_workspace = 0;  ///< likewise, besides the gradients of inputs
  /// Of backward_workspace: what lives when a parameter's gradient is first added to, or after. Not known: all of it.
  std::optional<int64_t> parameter_workspace = {};
  /// Of a backward in two parts, each one's; of the first besides the gradients of inputs. Not known: that of the whole.
  std::optional<int64_t> input_workspace = {}, weight_workspace = {};
  /// What is kept in place of `saved` from the first part to the second, besides the output gradient. Not known: as `saved`.
  std::optional<int64_t> deferred = {};
  bool defers_gradient = true;     ///< the output gradient's storage is kept as long
  std::vector<int64_t> input_gradients;  ///< bytes, by input; 0 where none is made, or it shares the output gradient's storage
};

}  // namespace trireme
