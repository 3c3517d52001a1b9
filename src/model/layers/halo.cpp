#include "model/layers/halo.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "model/layers/common.h"

namespace trireme {
namespace {

constexpr int kHeight = 2;  // the dim of rows in [n, c, h, w]
constexpr int64_t kForwardTag = 1, kBackwardTag = 2;

at::Tensor first_rows(const at::Tensor& images, int64_t count) { return images.narrow(kHeight, 0, count); }
at::Tensor last_rows(const at::Tensor& images, int64_t count) {
  return images.narrow(kHeight, images.size(kHeight) - count, count);
}

/// Ranks of this worker's neighbours; -1 at the image's edges.
struct Neighbours {
  explicit Neighbours(Communicator& group)
      : above(group.rank() - 1), below(group.rank() + 1 < group.size() ? group.rank() + 1 : -1) {}
  int above, below;
};

}  // namespace

int64_t Window::extent(int64_t input) const {
  const int64_t room = input + 2 * padding - span();
  if (!ceil) return room / stride + 1;
  const int64_t windows = (room + stride - 1) / stride + 1;
  return (windows - 1) * stride >= input + padding ? windows - 1 : windows;
}

Halo halo_of(const Window& window) {
  // a worker's first output row reads input rows from -padding on; the window of its last output row starts stride +
  // padding rows before the end of its input rows, so it extends span - stride - padding rows beyond that end
  return {window.padding, std::max<int64_t>(window.span() - window.stride - window.padding, 0)};
}

bool divides_by_height(const Window& window, int64_t height, int degree) {
  const int64_t outputs = window.extent(height);
  if (height % degree != 0 || outputs % degree != 0 || height != window.stride * outputs) return false;
  const Halo halo = halo_of(window);
  if (std::max(halo.above, halo.below) > height / degree) return false;
  // with sizes rounded up, a share with its halo could contain one window more than it should
  Window unpadded = window;
  unpadded.padding = 0;
  return unpadded.extent(halo.above + height / degree + halo.below) == outputs / degree;
}

ShardingOption height_option(int inputs, Placement output, int parameters, int buffers, bool communicates) {
  ShardingOption option = replicate_option(inputs, parameters, buffers);
  option.name = "height";
  option.inputs = option.input_gradients = std::vector<Placement>(size_t(inputs), Placement::shard(kHeight));
  option.output = output;
  option.parameter_gradients = std::vector<Placement>(size_t(parameters), Placement::partial());
  option.divides_work = true;
  option.communicates_over_tensor_axis = communicates;
  return option;
}

bool is_split_by_height(const LayerCall& call) {
  return call.tensor_degree > 1 && call.option && !call.option->inputs.empty() &&
         call.option->inputs[0] == Placement::shard(kHeight);
}

at::Tensor with_halo(LayerCall& call, const at::Tensor& images, const Halo& halo, at::ScalarType type, double edge) {
  if (halo.none()) return in_layout(images.to(type));
  const int64_t height = images.size(kHeight);
  at::Tensor extended = empty_in_layout(
      {images.size(0), images.size(1), halo.above + height + halo.below, images.size(3)}, images.options().dtype(type));
  if (images.size(0) == 0) return extended;
  Communicator& group = call.tensor_group();
  const Neighbours neighbours(group);
  if (neighbours.below >= 0 && halo.above > 0) group.send(last_rows(images, halo.above), neighbours.below, kForwardTag);
  if (neighbours.above >= 0 && halo.below > 0)
    group.send(first_rows(images, halo.below), neighbours.above, kForwardTag);
  extended.narrow(kHeight, halo.above, height).copy_(images);
  auto fill = [&](at::Tensor rows, int from) {
    if (rows.size(kHeight) == 0) return;
    if (from < 0) rows.fill_(edge);
    else rows.copy_(group.receive_shared(from, kForwardTag));
  };
  fill(first_rows(extended, halo.above), neighbours.above);
  fill(last_rows(extended, halo.below), neighbours.below);
  return extended;
}

void send_halo_gradient(LayerCall& call, const at::Tensor& gradient, const Halo& halo) {
  if (halo.none() || gradient.size(0) == 0) return;
  Communicator& group = call.tensor_group();
  const Neighbours neighbours(group);
  if (neighbours.above >= 0 && halo.above > 0)
    group.send(first_rows(gradient, halo.above), neighbours.above, kBackwardTag);
  if (neighbours.below >= 0 && halo.below > 0)
    group.send(last_rows(gradient, halo.below), neighbours.below, kBackwardTag);
}

at::Tensor receive_halo_gradient(LayerCall& call, const at::Tensor& gradient, const Halo& halo) {
  if (halo.none()) return gradient;
  const int64_t height = gradient.size(kHeight) - halo.above - halo.below;
  // writes only to rows that no neighbour reads, whether this is a copy or not
  at::Tensor own = in_layout(gradient.narrow(kHeight, halo.above, height));
  if (gradient.size(0) == 0) return own;
  Communicator& group = call.tensor_group();
  const Neighbours neighbours(group);
  if (neighbours.above >= 0 && halo.below > 0)
    first_rows(own, halo.below).add_(group.receive_shared(neighbours.above, kBackwardTag));
  if (neighbours.below >= 0 && halo.above > 0)
    last_rows(own, halo.above).add_(group.receive_shared(neighbours.below, kBackwardTag));
  return own;
}

}  // namespace trireme
