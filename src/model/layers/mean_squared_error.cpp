#include "trireme/layers/mean_squared_error.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/devices/device.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Saved tensors: output minus target, and empty tensors with the dtypes of output and target.
enum SquaredErrorSaved { kSquaredErrorError, kSquaredErrorOutputType, kSquaredErrorTargetType };

/// Returns the number of values of a sample, of which this worker has `local`.
int64_t values_of(const LayerCall& call, int64_t local) {
  const bool by_value = call.option && call.option->output.is_partial();
  return by_value ? local * call.tensor_degree : local;
}

/// MeanSquaredError::report_sums for tensors that the host cannot read: sums of whole columns. `offsets`: of the
/// columns from `first` on; empty: 0.
void report_sums_on_device(LayerCall& call, const at::Tensor& error, const at::Tensor& target,
                           const std::vector<double>& offsets, int64_t first) {
  const at::Tensor e = error.to(at::kDouble), squares = e.square().sum(0);
  call.report("squared_error", squares.sum());
  call.report("absolute_error", e.abs().sum());
  const at::Tensor t = target.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  for (int64_t j = 0; j < t.size(1) && !offsets.empty(); ++j) t.select(1, j).sub_(offsets[size_t(first + j)]);
  const at::Tensor sums = t.sum(0), target_squares = t.square().sum(0);
  for (int64_t j = 0; j < t.size(1); ++j) {
    call.report(fmt::format("squared_error.{}", first + j), squares[j]);
    call.report(fmt::format("target.{}", first + j), sums[j]);
    call.report(fmt::format("target_square.{}", first + j), target_squares[j]);
  }
}

}  // namespace

MeanSquaredError::MeanSquaredError(std::string name, std::vector<double> offsets)
    : Layer(std::move(name)), offsets_(std::move(offsets)) {}

void MeanSquaredError::report_sums(LayerCall& call, const at::Tensor& error, const at::Tensor& target) const {
  const int64_t local = error.size(1), first = values_of(call, local) == local ? 0 : local * call.tensor_index;
  if (!on_host(error)) return report_sums_on_device(call, error, target, offsets_, first);
  const at::Tensor e = error.to(at::kDouble), squares = e.square().sum(0);
  call.report("squared_error", squares.sum());
  call.report("absolute_error", e.abs().sum());
  for (int64_t j = 0; j < local; ++j) {
    const double offset = offsets_.empty() ? 0 : offsets_[size_t(first + j)];
    const at::Tensor t = target.select(1, j).to(at::kDouble) - offset;
    call.report(fmt::format("squared_error.{}", first + j), squares.data_ptr<double>()[j]);
    call.report(fmt::format("target.{}", first + j), t.sum());
    call.report(fmt::format("target_square.{}", first + j), t.square().sum());
  }
}

Shape MeanSquaredError::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  expect_rank(*this, inputs[0], 1, "[values]");
  if (inputs[0] != inputs[1])
    fail_shape(*this, fmt::format("target sample shape {} for outputs {}", to_string(inputs[1]), to_string(inputs[0])),
               "both must be equal", "give the model as many outputs as the dataset has targets");
  check_internal(offsets_.empty() || int64_t(offsets_.size()) == inputs[1][0], "every value of a target has an offset");
  return {};
}

std::vector<ShardingOption> MeanSquaredError::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2)};
  if (degree == 1 || inputs[0][0] % degree != 0) return options;
  const std::vector<Placement> channels(2, Placement::shard(1));
  options.push_back({.name = "channels",
                     .inputs = channels,
                     .output = Placement::partial(),
                     .input_gradients = channels,
                     .divides_work = true});
  return options;
}

double MeanSquaredError::forward_flops(std::span<const Shape> inputs) const {
  return 3.0 * double(element_count(inputs[0]));
}

at::Tensor MeanSquaredError::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const auto type = inputs[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor target = inputs[1].to(type), error = inputs[0].to(type) - target;
  call.saved = {error, at::empty({0}, inputs[0].options()), at::empty({0}, inputs[1].options())};
  report_sums(call, error, target);
  return error.square().sum(1).mul_(1 / double(values_of(call, error.size(1))));
}

std::vector<at::Tensor> MeanSquaredError::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& error = call.saved.at(kSquaredErrorError);
  const double factor = 2 / double(values_of(call, error.size(1)));
  const at::Tensor gradient = at::mul(error, output_gradient.to(error.scalar_type()).unsqueeze(1)).mul_(factor);
  std::vector<at::Tensor> result(2);
  if (call.wants_input_gradient(0)) result[0] = gradient.to(call.saved.at(kSquaredErrorOutputType).scalar_type());
  if (call.wants_input_gradient(1)) result[1] = gradient.neg().to(call.saved.at(kSquaredErrorTargetType).scalar_type());
  return result;
}

/// The metrics are sums of doubles: errors and their squares.
LayerMemory MeanSquaredError::memory(const CallShapes& call) const {
  constexpr int64_t kDouble = 8;
  LayerMemory memory = plain_memory(call);
  const int64_t count = call.inputs[0].count(), floats = count * call.master;
  const int64_t converted = call.compute == call.master ? 0 : floats,
                doubles = call.master == kDouble ? 0 : count * kDouble;
  memory.saved = floats;
  set_forward_peak(memory, {floats + converted, floats + doubles + count * kDouble});
  set_backward_peak(memory, {floats + (converted > 0 ? call.inputs[0].bytes() : 0)});
  return memory;
}

std::vector<OperatorWork> MeanSquaredError::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 3, false);  // difference, square, sum
}

}  // namespace trireme
