// Images split by rows over the tensor axis ("height"). Each worker has the rows of its share of the output, and
// borrows from its neighbours the rows that its windows extend into (the halo). Dryden, Maruyama, Benson, Moon, Snir,
// Van Essen, "Improving strong-scaling of CNN training by exploiting finer-grained parallelism", IPDPS 2019.
//
// The workers of a tensor group hold the same samples, so their batches are either all empty or all non-empty. They
// perform their exchanges in the same order, as with collectives. No call waits for a worker that has no rows to send.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/layer.h"

namespace trireme {

/// A window that slides along one dim of images, in a convolution or a pooling.
struct Window {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  /// The last window may extend beyond the padding if it begins within the image or the padding before it.
  bool ceil = false;

  int64_t span() const { return dilation * (kernel - 1) + 1; }  ///< length from its first element to its last
  /// Number of windows along `input` elements; at least 1 if the padded input is at least as long as the span.
  int64_t extent(int64_t input) const;
};

/// Numbers of rows above and below a worker's own rows. At the upper and lower edge of the image they are padding.
struct Halo {
  int64_t above = 0, below = 0;

  bool none() const { return above == 0 && below == 0; }
};

/// Returns the rows that windows extend into, if every worker has `stride` times as many input rows as output rows.
Halo halo_of(const Window& window);

/// True if a window's input and output divide over `degree` workers by rows such that each share of the output needs
/// only rows of its own share and of the two neighbours.
bool divides_by_height(const Window& window, int64_t height, int degree);

/// Returns the option "height": image inputs and their gradients are Shard(2), the output has the given placement;
/// every worker holds all parameters and computes a summand of their gradients. `communicates`: true if the layer calls
/// the tensor group.
ShardingOption height_option(int inputs, Placement output, int parameters, int buffers, bool communicates);

/// True if the layer runs under that option.
bool is_split_by_height(const LayerCall& call);

/// Returns `images` [n, c, h, w] in dtype `type` and channels_last order, extended by the halo's rows, which the
/// neighbours send. Beyond the edges of the image the rows have the value `edge`. No copy if there is no halo and dtype
/// and order are already right. Sends rows of `images`, which must not be written to afterwards.
at::Tensor with_halo(LayerCall& call, const at::Tensor& images, const Halo& halo, at::ScalarType type, double edge);

/// The adjoint, in two parts between which a worker can compute something else. Sends the neighbours their rows of
/// `gradient` [n, c, above + h + below, w], which must not be written to afterwards.
void send_halo_gradient(LayerCall& call, const at::Tensor& gradient, const Halo& halo);
/// Returns the rows of this worker [n, c, h, w], plus what its neighbours computed for them.
at::Tensor receive_halo_gradient(LayerCall& call, const at::Tensor& gradient, const Halo& halo);

}  // namespace trireme
