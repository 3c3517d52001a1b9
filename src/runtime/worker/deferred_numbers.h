// Collects numbers of a step that are in the memory of the worker's device. They are read together at the end of the
// step, because each read makes the host wait for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/step.h"

namespace trireme {

/// The numbers of one step: losses and metrics in the order in which they were added, then sums of gradients.
struct NumbersOnDevice {
  at::Tensor values;                   ///< float64; undefined if there are none
  std::vector<std::string> metrics;    ///< their names; empty: a loss
  std::vector<std::string> gradients;  ///< the parameters to which each sum belongs

  /// Waits for the device, also if there are no numbers, and adds them to the outcome.
  void add_to(StepOutcome& outcome) const;
};

/// Belongs to one worker. On the CPU every number is added to the outcome at once.
class DeferredNumbers {
 public:
  explicit DeferredNumbers(StepOutcome& outcome) : outcome_(outcome) {}

  /// `value`: a tensor of one number.
  void add_loss(const at::Tensor& value);
  void add_metric(std::string_view name, const at::Tensor& value);
  /// Adds the sum of a gradient's elements, which is not finite if an element is not. `parameters`: the names of its
  /// parameters, for the outcome.
  void add_gradient_sum(const at::Tensor& sum, std::string parameters);
  /// Returns the numbers so far, and forgets them.
  NumbersOnDevice take();
  /// Adds the numbers to the outcome, and forgets them. Waits for the device.
  void finish();

 private:
  StepOutcome& outcome_;
  std::vector<at::Tensor> values_, sums_;  // 0-dim, float64
  std::vector<std::string> metrics_, gradients_;
};

}  // namespace trireme
