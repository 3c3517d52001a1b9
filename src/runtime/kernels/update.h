// Inner loops of the optimizers, on blocks that stay in the first-level cache. Formulas: optimizer.h. Arithmetic is
// float for float weights and double for double ones; sums over many elements are kept in double. Single-threaded;
// pointers do not overlap.
#pragma once

#include <array>
#include <cstdint>

namespace trireme::kernels {

/// What one step's loops multiply by: the optimizer's settings with everything that depends on the step or the
/// parameter.
struct StepRates {
  double learning_rate = 0;
  double momentum = 0, decay = 0, epsilon = 0;
  double beta1 = 0, beta2 = 0, correction1 = 1, correction2 = 1;  ///< corrections: 1 - beta^step
  double alpha = 0;
  double trust = 1;  ///< LARS, LAMB: of this parameter
};

constexpr int kMostStates = 3;

/// A stretch of a bucket. The gradient is already summed over its contributors.
template <class T>
struct Block {
  T* weights = nullptr;
  const T* gradient = nullptr;
  std::array<T*, kMostStates> state = {};  ///< null where the optimizer has fewer
  int64_t size = 0;
  T scale = 1;  ///< of the gradient
};

// State: none or the momentum.
void step_sgd(const Block<float>& block, const StepRates& rates, bool nesterov);
void step_sgd(const Block<double>& block, const StepRates& rates, bool nesterov);
void step_lars(const Block<float>& block, const StepRates& rates);
void step_lars(const Block<double>& block, const StepRates& rates);

// State: first and second moment. `decoupled`: AdamW.
void step_adam(const Block<float>& block, const StepRates& rates, bool decoupled);
void step_adam(const Block<double>& block, const StepRates& rates, bool decoupled);
/// Brings the moments up to date.
void move_moments(const Block<float>& block, const StepRates& rates);
void move_moments(const Block<double>& block, const StepRates& rates);
/// What LAMB would subtract at rate and trust 1, from moments that are up to date, to `direction`.
void lamb_direction(const Block<float>& block, const StepRates& rates, float* direction);
void lamb_direction(const Block<double>& block, const StepRates& rates, double* direction);
/// weights -= learning_rate * trust * direction.
void step_along(const Block<float>& block, const StepRates& rates, const float* direction);
void step_along(const Block<double>& block, const StepRates& rates, const double* direction);

// State: sum of squares.
void step_adagrad(const Block<float>& block, const StepRates& rates);
void step_adagrad(const Block<double>& block, const StepRates& rates);
/// State: average of squares; where `centered` the average gradient; last the momentum if there is one.
void step_rmsprop(const Block<float>& block, const StepRates& rates, bool centered);
void step_rmsprop(const Block<double>& block, const StepRates& rates, bool centered);

/// average += share * (values - average).
void move_average(float* average, const float* values, int64_t size, double share);
void move_average(double* average, const double* values, int64_t size, double share);

/// Sum of squares.
double square_sum(const float* values, int64_t size);
double square_sum(const double* values, int64_t size);

}  // namespace trireme::kernels
