// Inner loops of the optimizers. They work on blocks that stay in the first-level cache. See optimizer.h for the
// formulas. Arithmetic is in float for float weights and in double for double weights; sums over many elements are in
// double. Single-threaded. Pointers must not overlap.
#pragma once

#include <array>
#include <cstdint>

namespace trireme::kernels {

/// The constants of one step's loops: the optimizer's settings after everything that depends on the step or the
/// parameter has been applied.
struct StepRates {
  double learning_rate = 0;
  double momentum = 0, decay = 0, epsilon = 0;
  double beta1 = 0, beta2 = 0, correction1 = 1, correction2 = 1;  ///< corrections: 1 - beta^step
  double alpha = 0;
  double trust = 1;  ///< LARS, LAMB: trust ratio of this parameter
};

constexpr int kMostStates = 3;

/// A contiguous part of a bucket. The gradient is already the sum over all contributors.
template <class T>
struct Block {
  T* weights = nullptr;
  const T* gradient = nullptr;
  std::array<T*, kMostStates> state = {};  ///< null where the optimizer has fewer
  int64_t size = 0;
  T scale = 1;  ///< multiplies the gradient
};

// State: none, or the momentum.
void step_sgd(const Block<float>& block, const StepRates& rates, bool nesterov);
void step_sgd(const Block<double>& block, const StepRates& rates, bool nesterov);
void step_lars(const Block<float>& block, const StepRates& rates);
void step_lars(const Block<double>& block, const StepRates& rates);

// State: first and second moment. `decoupled`: AdamW.
void step_adam(const Block<float>& block, const StepRates& rates, bool decoupled);
void step_adam(const Block<double>& block, const StepRates& rates, bool decoupled);
/// Updates the moments.
void move_moments(const Block<float>& block, const StepRates& rates);
void move_moments(const Block<double>& block, const StepRates& rates);
/// Writes to `direction` what LAMB would subtract at learning rate 1 and trust 1. The moments must be up to date.
void lamb_direction(const Block<float>& block, const StepRates& rates, float* direction);
void lamb_direction(const Block<double>& block, const StepRates& rates, double* direction);
/// weights -= learning_rate * trust * direction.
void step_along(const Block<float>& block, const StepRates& rates, const float* direction);
void step_along(const Block<double>& block, const StepRates& rates, const double* direction);

// State: sum of squares.
void step_adagrad(const Block<float>& block, const StepRates& rates);
void step_adagrad(const Block<double>& block, const StepRates& rates);
/// State: the average of the squares; then the average gradient if `centered`; then the momentum if there is one.
void step_rmsprop(const Block<float>& block, const StepRates& rates, bool centered);
void step_rmsprop(const Block<double>& block, const StepRates& rates, bool centered);

/// average += share * (values - average).
void move_average(float* average, const float* values, int64_t size, double share);
void move_average(double* average, const double* values, int64_t size, double share);

/// Sum of squares.
double square_sum(const float* values, int64_t size);
double square_sum(const double* values, int64_t size);

}  // namespace trireme::kernels
