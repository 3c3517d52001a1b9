#include "runtime/worker/deferred_numbers.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "base/devices/device.h"

namespace trireme {
namespace {

at::Tensor as_number(const at::Tensor& value) { return value.to(at::kDouble).reshape({}); }

}  // namespace

void NumbersOnDevice::add_to(StepOutcome& outcome) const {
  if (!values.defined()) return await_device();
  const at::Tensor host = values.to(at::kCPU);
  const double* read = host.data_ptr<double>();
  for (const std::string& name : metrics) (name.empty() ? outcome.loss_sum : outcome.metrics[name]) += *read++;
  for (const std::string& parameters : gradients)
    if (!std::isfinite(*read++) && outcome.not_finite.empty()) outcome.not_finite = parameters;
}

void DeferredNumbers::add_loss(const at::Tensor& value) {
  if (on_host(value)) {
    outcome_.loss_sum += value.item<double>();
    return;
  }
  values_.push_back(as_number(value));
  metrics_.emplace_back();
}

void DeferredNumbers::add_metric(std::string_view name, const at::Tensor& value) {
  if (on_host(value)) {
    outcome_.metrics[std::string(name)] += value.item<double>();
    return;
  }
  values_.push_back(as_number(value));
  metrics_.emplace_back(name);
}

void DeferredNumbers::add_gradient_sum(const at::Tensor& sum, std::string parameters) {
  sums_.push_back(as_number(sum));
  gradients_.push_back(std::move(parameters));
}

NumbersOnDevice DeferredNumbers::take() {
  std::vector<at::Tensor> all = std::exchange(values_, {});
  all.insert(all.end(), sums_.begin(), sums_.end());
  sums_.clear();
  NumbersOnDevice numbers{{}, std::exchange(metrics_, {}), std::exchange(gradients_, {})};
  if (!all.empty()) numbers.values = at::stack(all);
  return numbers;
}

void DeferredNumbers::finish() { take().add_to(outcome_); }

}  // namespace trireme
