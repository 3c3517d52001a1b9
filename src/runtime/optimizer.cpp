#include "runtime/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/devices/device.h"
#include "base/vector_code.h"
#include "runtime/kernels/update.h"
#include "trireme/error.h"

namespace trireme {
namespace {

template <class T>
TRIREME_INLINE void add_into(T* __restrict sum, const T* __restrict x, int64_t n, bool first) {
  if (first) std::memcpy(sum, x, size_t(n) * sizeof(T));
  else
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

TRIREME_CLONES void add_float(float* sum, const float* x, int64_t n, bool first) { add_into(sum, x, n, first); }
TRIREME_CLONES void add_double(double* sum, const double* x, int64_t n, bool first) { add_into(sum, x, n, first); }
TRIREME_CLONES void add_bfloat16(float* __restrict sum, const uint16_t* __restrict x, int64_t n, bool first) {
  if (first)
    for (int64_t i = 0; i < n; ++i) sum[i] = float_of_bfloat16(x[i]);
  else
    for (int64_t i = 0; i < n; ++i) sum[i] += float_of_bfloat16(x[i]);
}
TRIREME_CLONES void narrow_all(uint16_t* __restrict out, const float* __restrict in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = bfloat16_of_float(in[i]);
}

/// Adds `count` elements of a gradient, from element `offset` on, to a block.
void add_gradient(float* sum, const at::Tensor& gradient, int64_t offset, int64_t count, bool first) {
  if (gradient.scalar_type() == at::kBFloat16)
    add_bfloat16(sum, static_cast<const uint16_t*>(gradient.data_ptr()) + offset, count, first);
  else add_float(sum, gradient.data_ptr<float>() + offset, count, first);
}
void add_gradient(double* sum, const at::Tensor& gradient, int64_t offset, int64_t count, bool first) {
  add_double(sum, gradient.data_ptr<double>() + offset, count, first);
}
void write_compute(uint16_t* out, const float* in, int64_t n) { narrow_all(out, in, n); }
void write_compute(uint16_t*, const double*, int64_t) {
  check_internal(false, "a bfloat16 copy belongs to float32 weights");
}

/// Calls `visit(block, first element's index in the slice)` for each block of the slice.
template <class T, class Visit>
void each_block(const OptimizerConfig& config, const SliceUpdate& u, bool needs_gradient, Visit&& visit) {
  T* master = u.master->data_ptr<T>() + u.slice.begin;
  std::array<T*, kernels::kMostStates> state = {};
  for (int k = 0; k < config.kind->state_tensors(config); ++k)
    state[size_t(k)] = u.state[size_t(k)].data_ptr<T>() + u.state_offset;
  alignas(64) T sum[kOptimizerBlock];
  for (int64_t done = 0; done < u.slice.size(); done += kOptimizerBlock) {
    const int64_t n = std::min(kOptimizerBlock, u.slice.size() - done);
    for (size_t c = 0; needs_gradient && c < u.gradients.size(); ++c)
      add_gradient(sum, u.gradients[c], u.gradient_offset + done, n, c == 0);
    kernels::Block<T> block{master + done, sum, state, n, T(u.gradient_scale)};
    for (T*& s : block.state)
      if (s) s += done;
    visit(block, done);
  }
}

/// The shares of all steps in the averaged weights add up to 1.
double average_share(const OptimizerConfig& config, int64_t step) {
  return (1 - config.ema) / (1 - std::pow(config.ema, double(step)));
}

template <class T>
void update_typed(const OptimizerConfig& config, const SliceUpdate& u) {
  const kernels::StepRates rates = rates_of(config, u);
  auto* compute = u.compute ? static_cast<uint16_t*>(u.compute->data_ptr()) + u.slice.begin : nullptr;
  T* average = config.ema > 0 ? u.state.back().data_ptr<T>() + u.state_offset : nullptr;
  const double share = average ? average_share(config, u.step) : 0;
  const auto step = config.kind->loops<T>().step;
  each_block<T>(config, u, !config.kind->measure_takes_gradient, [&](const kernels::Block<T>& block, int64_t done) {
    step(config, block, rates);
    if (compute) write_compute(compute + done, block.weights, block.size);
    if (average) kernels::move_average(average + done, block.weights, block.size, share);
  });
}

template <class T>
SquareSums measure_typed(const OptimizerConfig& config, const SliceUpdate& u) {
  const kernels::StepRates rates = rates_of(config, u);
  const auto measure = config.kind->loops<T>().measure;
  SquareSums sums;
  each_block<T>(config, u, true, [&](const kernels::Block<T>& block, int64_t) {
    sums.weights += kernels::square_sum(block.weights, block.size);
    sums.step += measure(block, rates);
  });
  return sums;
}

template <class T>
void sum_typed(std::span<const at::Tensor> gradients, Range slice, T* sum) {
  for (int64_t done = 0; done < slice.size(); done += kOptimizerBlock) {
    const int64_t n = std::min(kOptimizerBlock, slice.size() - done);
    for (size_t c = 0; c < gradients.size(); ++c) add_gradient(sum + done, gradients[c], slice.begin + done, n, c == 0);
  }
}

// ------------------------------------------------------------------------- on a device, by libtorch's operators

/// Returns the sum of the gradients over `slice`, times `scale`; the gradient itself where that is the same.
at::Tensor summed_on_device(std::span<const at::Tensor> gradients, Range slice, double scale, at::ScalarType type) {
  const auto part = [&](const at::Tensor& gradient) { return gradient.narrow(0, slice.begin, slice.size()); };
  at::Tensor sum = part(gradients[0]).to(type);
  const bool is_own = gradients[0].scalar_type() != type;
  if (gradients.size() == 1 && scale == 1) return sum;
  if (!is_own) sum = sum.clone();
  for (size_t c = 1; c < gradients.size(); ++c) sum.add_(part(gradients[c]).to(sum.device(), type));
  return scale == 1 ? sum : sum.mul_(scale);
}

DeviceSlice slice_on_device(const OptimizerConfig& config, const SliceUpdate& u, bool needs_gradient) {
  DeviceSlice slice;
  slice.rates = u.recorded;
  slice.weights = u.master->narrow(0, u.slice.begin, u.slice.size());
  if (needs_gradient)
    slice.gradient = summed_on_device(u.gradients, {u.gradient_offset, u.gradient_offset + u.slice.size()},
                                      u.gradient_scale, u.master->scalar_type());
  for (int k = 0; k < config.kind->state_tensors(config); ++k)
    slice.state[size_t(k)] = u.state[size_t(k)].narrow(0, u.state_offset, u.slice.size());
  return slice;
}

void update_on_device(const OptimizerConfig& config, const SliceUpdate& u) {
  const DeviceSlice slice = slice_on_device(config, u, !config.kind->measure_takes_gradient);
  config.kind->on_device.step(config, slice, rates_of(config, u));
  if (u.compute) u.compute->narrow(0, u.slice.begin, u.slice.size()).copy_(slice.weights);
  if (config.ema > 0)
    u.state.back().narrow(0, u.state_offset, u.slice.size()).lerp_(slice.weights, average_share(config, u.step));
}

SquareSums measure_on_device(const OptimizerConfig& config, const SliceUpdate& u) {
  const DeviceSlice slice = slice_on_device(config, u, true);
  const at::Tensor step = config.kind->on_device.measure(slice, rates_of(config, u));
  const at::Tensor sums = at::stack({slice.weights.to(at::kDouble).square().sum(), step}).to(at::kCPU);
  return {sums.data_ptr<double>()[0], sums.data_ptr<double>()[1]};
}

}  // namespace

double first_value(const OptimizerConfig& config, int state) {
  return config.kind->first_state && state == 0 ? config.kind->first_state(config) : 0.0;
}

kernels::StepRates rates_of(const OptimizerConfig& c, const SliceUpdate& u) {
  kernels::StepRates rates{.learning_rate = u.learning_rate,
                           .momentum = c.momentum,
                           .decay = u.decays ? c.weight_decay : 0,
                           .epsilon = c.epsilon,
                           .beta1 = c.beta1,
                           .beta2 = c.beta2,
                           .alpha = c.alpha,
                           .trust = u.trust};
  if (c.kind->set_rates) c.kind->set_rates(c, u.step, rates);
  return rates;
}

int optimizer_state_count(const OptimizerConfig& config) {
  return config.kind->state_tensors(config) + (config.ema > 0 ? 1 : 0);
}

bool skips_zero_gradients(const OptimizerConfig& config) {
  return config.kind->skips_zero_gradients && config.momentum == 0 && config.weight_decay == 0 && config.ema == 0;
}

std::vector<at::Tensor> make_optimizer_state(const OptimizerConfig& config, int64_t elements,
                                             const at::TensorOptions& options) {
  std::vector<at::Tensor> state;
  state.reserve(size_t(optimizer_state_count(config)));
  for (int i = 0; i < optimizer_state_count(config); ++i)
    state.push_back(at::full({elements}, first_value(config, i), options));
  return state;
}

void reset_optimizer_state(const OptimizerConfig& config, std::span<at::Tensor> state) {
  for (size_t i = 0; i < state.size(); ++i) state[i].fill_(first_value(config, int(i)));
}

bool can_record(const OptimizerConfig& config) { return config.kind->on_device.recorded != nullptr && config.ema == 0; }

std::vector<double> recorded_numbers(const OptimizerConfig& config, double learning_rate, int64_t step) {
  SliceUpdate update;
  update.learning_rate = learning_rate;
  update.step = step;
  return config.kind->on_device.recorded(rates_of(config, update));
}

void sum_gradients(std::span<const at::Tensor> gradients, Range slice, at::Tensor& sum) {
  if (!on_host(sum)) sum.copy_(summed_on_device(gradients, slice, 1, sum.scalar_type()));
  else if (sum.scalar_type() == at::kDouble) sum_typed(gradients, slice, sum.data_ptr<double>());
  else sum_typed(gradients, slice, sum.data_ptr<float>());
}

void update_slice(const OptimizerConfig& config, const SliceUpdate& update) {
  if (update.slice.empty()) return;
  if (!on_host(*update.master)) update_on_device(config, update);
  else if (update.master->scalar_type() == at::kDouble) update_typed<double>(config, update);
  else update_typed<float>(config, update);
}

double sum_of_squares(const at::Tensor& values) {
  if (!on_host(values)) return values.to(at::kDouble).square().sum().item<double>();
  if (values.scalar_type() == at::kDouble) return kernels::square_sum(values.data_ptr<double>(), values.numel());
  return kernels::square_sum(values.data_ptr<float>(), values.numel());
}

void exchange_values(at::Tensor& a, at::Tensor& b) {
  check_internal(a.scalar_type() == b.scalar_type() && a.numel() == b.numel() && a.is_contiguous() && b.is_contiguous(),
                 "values are exchanged between flat tensors of one kind");
  if (!on_host(a)) {
    const at::Tensor kept = a.clone();
    a.copy_(b);
    b.copy_(kept);
    return;
  }
  auto* first = static_cast<char*>(a.data_ptr());
  std::swap_ranges(first, first + a.nbytes(), static_cast<char*>(b.data_ptr()));
}

SquareSums measure_slice(const OptimizerConfig& config, const SliceUpdate& update) {
  check_internal(config.is_layerwise(), "only layer-wise optimizers measure");
  if (update.slice.empty()) return {};
  if (!on_host(*update.master)) return measure_on_device(config, update);
  return update.master->scalar_type() == at::kDouble ? measure_typed<double>(config, update)
                                                     : measure_typed<float>(config, update);
}

double trust_ratio(const OptimizerConfig& config, const SquareSums& sums) {
  const double weights = std::sqrt(sums.weights), step = std::sqrt(sums.step);
  if (weights == 0 || step == 0) return 1;
  return config.kind->trust(config, weights, step);
}

}  // namespace trireme
