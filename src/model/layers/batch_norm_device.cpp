#include "model/layers/batch_norm_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "model/layers/common.h"
#include "model/layers/halo.h"
#include "trireme/error.h"

namespace trireme {
namespace {

enum DeviceNormSaved { kDeviceNormInput, kDeviceNormMean, kDeviceNormInverseDeviation, kDeviceNormOutput };

/// Statistics per channel, as one double tensor [2 c + 1]: means, M2, number of values. The message between workers.
struct PackedMoments {
  at::Tensor all;

  int64_t channels() const { return all.size(-1) / 2; }
  at::Tensor means() const { return all.narrow(-1, 0, channels()); }
  at::Tensor m2() const { return all.narrow(-1, channels(), channels()); }
  at::Tensor count() const { return all.narrow(-1, 2 * channels(), 1); }
};

int64_t values_of_channel(const at::Tensor& input) { return input.numel() / std::max<int64_t>(input.size(1), 1); }

PackedMoments moments_on_device(LayerCall& call, const at::Tensor& input) {
  const at::TensorOptions doubles = at::TensorOptions().dtype(at::kDouble).device(input.device());
  const int64_t channels = input.size(1), count = values_of_channel(input);
  if (count == 0) return {at::zeros({2 * channels + 1}, doubles)};
  // given running statistics (which are dropped), the operator computes in their type, not in bfloat16
  const at::Tensor& like = call.buffer(0);
  const auto [mean, variance] =
      at::batch_norm_update_stats(input, at::empty_like(like), at::empty_like(like), /*momentum=*/1);
  PackedMoments moments{at::cat({mean, variance, at::full({1}, double(count), doubles)})};
  moments.m2().mul_(double(count));
  return moments;
}

/// Merges the moments in the rows of `parts`.
PackedMoments merge_moments(const PackedMoments& parts) {
  const at::Tensor count = parts.count(), total = count.sum(0);
  const at::Tensor mean = at::mul(parts.means(), count).sum(0).div_(total.clamp_min(1));
  const at::Tensor m2 = at::addcmul(parts.m2(), (parts.means() - mean).square_(), count).sum(0);
  return {at::cat({mean, m2, total})};
}

/// Merges the moments of all ranks. All ranks compute the same bits.
PackedMoments merge_moments_over(Communicator& group, const PackedMoments& mine) {
  const at::Tensor parts = at::empty({group.size(), mine.all.numel()}, mine.all.options());
  std::vector<at::Tensor> rows = parts.unbind(0);
  group.all_gather(mine.all, rows);
  return merge_moments({parts});
}

/// Updates the running statistics. Without values they stay as they are.
void update_running_on_device(LayerCall& call, const PackedMoments& moments, double momentum) {
  at::Tensor &mean = call.buffer(0), &variance = call.buffer(1);
  const auto type = mean.scalar_type();
  const at::Tensor weight = moments.count().gt(0).to(type).mul_(momentum);
  mean.lerp_(moments.means().to(type), weight);
  variance.lerp_(at::div(moments.m2(), (moments.count() - 1).clamp_min_(1)).to(type), weight);
}

/// Under the deferred scope the running statistics are updated after the step's last micro-batch, with all of them.
void commit_on_device(LayerCall& call, const PackedMoments& moments, double momentum) {
  if (call.batch_norm != BatchNormScope::deferred || call.micro_batches <= 1)
    return update_running_on_device(call, moments, momentum);
  at::Tensor& kept = call.scratch();
  PackedMoments total = moments;
  if (call.micro_batch > 0) {
    check_internal(kept.defined(), "the micro-batches of a step come to batch norm in order");
    total = merge_moments({at::stack({kept, moments.all})});
  }
  const bool last = call.micro_batch + 1 == call.micro_batches;
  kept = last ? at::Tensor() : total.all;
  if (last) update_running_on_device(call, total, momentum);
}

at::Tensor normalise(LayerCall& call, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& variance,
                     double epsilon) {
  if (input.numel() == 0) return empty_in_layout(input.sizes(), input.options());
  return std::get<0>(at::native_batch_norm(input, call.parameter(0), call.parameter(1), mean, variance,
                                           /*training=*/false, /*momentum=*/0, epsilon));
}

bool exchanges_statistics(LayerCall& call) { return has_global_statistics(call) || is_split_by_height(call); }

/// True if libtorch's own update of the running statistics is the right one.
bool updates_at_once(LayerCall& call, const at::Tensor& input) {
  const bool deferred = call.batch_norm == BatchNormScope::deferred && call.micro_batches > 1 && !call.recomputing;
  // its unbiased variance of a single value is NaN
  return !exchanges_statistics(call) && !deferred && values_of_channel(input) > 1;
}

at::Tensor normalise_by_batch(LayerCall& call, const BatchNormOptions& options, const at::Tensor& input) {
  if (updates_at_once(call, input)) {
    c10::optional<at::Tensor> mean, variance;
    if (!call.recomputing) mean = call.buffer(0), variance = call.buffer(1);
    auto [output, own_mean, inverse] =
        at::native_batch_norm(input, call.parameter(0), call.parameter(1), mean, variance, /*training=*/true,
                              options.momentum, options.epsilon);
    call.saved = {input, own_mean, inverse};
    return output;
  }
  PackedMoments moments = moments_on_device(call, input);
  if (is_split_by_height(call)) moments = merge_moments_over(call.tensor_group(), moments);
  if (has_global_statistics(call)) moments = merge_moments_over(call.data_group(), moments);
  if (!call.recomputing) commit_on_device(call, moments, options.momentum);
  const auto type = call.parameter(0).scalar_type();
  const at::Tensor mean = moments.means().to(type), variance = at::div(moments.m2(), moments.count().clamp_min(1));
  call.saved = {input, mean, (variance + options.epsilon).rsqrt_().to(type)};
  return normalise(call, input, mean, variance.to(type), options.epsilon);
}

/// Returns the gradient of the input from the statistics of several workers: scale * (g - mean of g - (x - mean) *
/// slope), with the sums over all values.
at::Tensor gradient_from_sums(LayerCall& call, const at::Tensor& input, const at::Tensor& g, const at::Tensor& sums) {
  const at::Tensor &mean = call.saved[kDeviceNormMean], &weight = call.parameter(0);
  const at::Tensor inverse = call.saved[kDeviceNormInverseDeviation].to(at::kDouble), scale = inverse * weight;
  const at::Tensor slope = at::mul(sums[1], inverse.square()).mul_(scale).neg_(),
                   constant = at::mul(sums[0], scale).neg_();
  // a norm of deviation 1 is the one operator that centres the input before it multiplies: a large mean costs no digits
  const at::Tensor rest = std::get<0>(at::native_batch_norm(
      input, slope.to(weight.scalar_type()), constant.to(weight.scalar_type()), mean, at::ones_like(mean),
      /*training=*/false, /*momentum=*/0, /*eps=*/0));
  Shape by_channel(size_t(input.dim()), 1);
  by_channel[1] = input.size(1);
  return at::addcmul(rest, g, scale.to(weight.scalar_type()).view(by_channel)).to(input.scalar_type());
}

/// As above for sums of this worker: the operator of libtorch.
at::Tensor own_gradients(LayerCall& call, const BatchNormOptions& options, const at::Tensor& input, const at::Tensor& g,
                         bool want_input) {
  const std::array<bool, 3> wanted{want_input, call.wants_gradient(0), call.wants_gradient(1)};
  if (input.numel() == 0) {
    add_zero_gradients(call, 2);
    return want_input ? at::empty_like(input) : at::Tensor();
  }
  const auto [of_input, of_weight, of_bias] = at::native_batch_norm_backward(
      g, input, call.parameter(0), c10::nullopt, c10::nullopt, call.saved[kDeviceNormMean],
      call.saved[kDeviceNormInverseDeviation], /*train=*/true, options.epsilon, wanted);
  if (wanted[1]) call.add_gradient(0, of_weight);
  if (wanted[2]) call.add_gradient(1, of_bias);
  return of_input;
}

at::Tensor shared_gradients(LayerCall& call, const BatchNormOptions& options, const at::Tensor& input,
                            const at::Tensor& g, bool want_input) {
  const at::Tensor& inverse = call.saved[kDeviceNormInverseDeviation];
  at::Tensor sums;  // row 0: sum of g; row 1: sum of g * (x - mean)
  if (input.numel() == 0) {
    add_zero_gradients(call, 2);
    sums = at::zeros({2, input.size(1)}, inverse.options().dtype(at::kDouble));
  } else {
    const auto [none, of_weight, of_bias] = at::native_batch_norm_backward(
        g, input, call.parameter(0), c10::nullopt, c10::nullopt, call.saved[kDeviceNormMean], inverse, /*train=*/true,
        options.epsilon, {false, true, true});
    if (call.wants_gradient(0)) call.add_gradient(0, of_weight);
    if (call.wants_gradient(1)) call.add_gradient(1, of_bias);
    sums = at::stack({of_bias.to(at::kDouble), at::div(of_weight.to(at::kDouble), inverse)});
  }
  add_over_statistics(call, sums);
  if (!want_input) return {};
  if (input.numel() == 0) return at::empty_like(input);
  sums.div_(std::max(values_per_channel(call, input), 1.0));
  return gradient_from_sums(call, input, g, sums);
}

}  // namespace

at::Tensor batch_norm_on_device(LayerCall& call, const BatchNormOptions& options, std::span<const at::Tensor> inputs) {
  const at::Tensor input = in_layout(inputs[0]);
  at::Tensor output = call.training ? normalise_by_batch(call, options, input)
                                    : normalise(call, input, call.buffer(0), call.buffer(1), options.epsilon);
  output = in_layout(output);
  if (options.residual) output.add_(inputs[1]);
  if (options.relu) {
    output.relu_();
    if (call.training) call.saved.push_back(output);
  }
  return output;
}

std::vector<at::Tensor> batch_norm_backward_on_device(LayerCall& call, const BatchNormOptions& options,
                                                      const at::Tensor& output_gradient) {
  const at::Tensor input = call.saved[kDeviceNormInput];
  const bool want_input = call.wants_input_gradient(0);
  at::Tensor g = in_layout(output_gradient.to(input.scalar_type()));
  if (options.relu) g = in_layout(at::threshold_backward(g, call.saved[kDeviceNormOutput], 0));
  const at::Tensor of_input = exchanges_statistics(call) ? shared_gradients(call, options, input, g, want_input)
                                                         : own_gradients(call, options, input, g, want_input);
  std::vector<at::Tensor> gradients{want_input ? in_layout(of_input) : at::Tensor()};
  if (options.residual) gradients.push_back(call.wants_input_gradient(1) ? g : at::Tensor());
  return gradients;
}

}  // namespace trireme
