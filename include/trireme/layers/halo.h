// Images split by rows over the tensor axis ("height"): each worker has the rows of its share of the output, and
// borrows from its neighbours the rows that its windows reach into (the halo). Dryden, Maruyama, Benson, Moon, Snir,
// Van Essen, "Improving strong-scaling of CNN training by exploiting finer-grained parallelism", IPDPS 2019.
//
// The workers of a tensor group hold the same samples, so either all of them have an empty batch or none; they come to
// their exchanges in the same order, as to collectives. Nothing here waits for a worker that has no rows to give.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/layer.h"

namespace trireme {

/// A window that slides along one dim of images: that of a convolution or of pooling.
struct Window {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool ceil = false;  ///< the last window may reach past the padding, as long as it begins within the image or the
                      ///< padding before it

  int64_t span() const { return dilation * (kernel - 1) + 1; }  ///< from its first element to its last
  /// Windows along `input` elements, at least 1 where the padded input is as long as the span.
  int64_t extent(int64_t input) const;
};

/// Rows above and below a worker's own ones. At the upper and lower edge of the image they are padding.
struct Halo {
  int64_t above = 0, below = 0;

  bool none() const { return above == 0 && below == 0; }
};

/// The rows that windows reach into where every worker has stride times as many input rows as output rows.
Halo halo_of(const Window& window);

/// Whether a window's input and output divide over `degree` workers by rows such that each share of the output needs
/// rows of the own share and of the two neighbours' only.
bool divides_by_height(const Window& window, int64_t height, int degree);

/// The option "height": image inputs and their gradients Shard(2), the output as given; every worker holds all
/// parameters and brings a summand of their gradients. `communicates`: the layer calls the tensor group.
ShardingOption height_option(int inputs, Placement output, int parameters, int buffers, bool communicates);

/// Whether the layer runs under that option.
bool is_split_by_height(const LayerCall& call);

/// `images` [n, c, h, w] in type `type` and channels_last order with the halo's rows around them, which the neighbours
/// send; `edge` at the edges of the image. No copy where there is no halo and type and order are right already. Sends
/// rows of `images`, which must not be written to afterwards.
at::Tensor with_halo(LayerCall& call, const at::Tensor& images, const Halo& halo, at::ScalarType type, double edge);

/// The adjoint, in two parts between which a worker can do something else. Sends the neighbours their rows of
/// `gradient` [n, c, above + h + below, w], which must not be written to afterwards.
void send_halo_gradient(LayerCall& call, const at::Tensor& gradient, const Halo& halo);
/// The rows of this worker [n, c, h, w], with what its neighbours computed for them added.
at::Tensor receive_halo_gradient(LayerCall& call, const at::Tensor& gradient, const Halo& halo);

}  // namespace trireme
