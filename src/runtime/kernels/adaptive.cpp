// Adagrad and RMSprop. Compiled with -fno-math-errno: a square root that may set errno is not vectorised.
#include <algorithm>
#include <cmath>

#include "base/vector_code.h"
#include "runtime/kernels/update.h"

namespace trireme::kernels {
namespace {

template <class T>
TRIREME_INLINE void adagrad(T* __restrict w, const T* __restrict g, T* __restrict sum, int64_t n, T scale,
                            const StepRates& r) {
  const T lr = T(r.learning_rate), decay = T(r.decay), epsilon = T(r.epsilon);
  for (int64_t i = 0; i < n; ++i) {
    const T d = g[i] * scale + decay * w[i];
    sum[i] += d * d;
    w[i] -= lr * d / (std::sqrt(sum[i]) + epsilon);
  }
}

template <bool kCentered, bool kMomentum, class T>
TRIREME_INLINE void rmsprop_of(T* __restrict w, const T* __restrict g, T* __restrict squares, T* __restrict mean,
                               T* __restrict m, int64_t n, T scale, const StepRates& r) {
  const T lr = T(r.learning_rate), decay = T(r.decay), epsilon = T(r.epsilon), alpha = T(r.alpha),
          momentum = T(r.momentum);
  for (int64_t i = 0; i < n; ++i) {
    const T d = g[i] * scale + decay * w[i];
    squares[i] = alpha * squares[i] + (1 - alpha) * d * d;
    T variance = squares[i];
    if constexpr (kCentered) {
      mean[i] = alpha * mean[i] + (1 - alpha) * d;
      variance = std::max(T(0), variance - mean[i] * mean[i]);  // rounding may make it negative
    }
    const T direction = d / (std::sqrt(variance) + epsilon);
    if constexpr (kMomentum) {
      m[i] = momentum * m[i] + direction;
      w[i] -= lr * m[i];
    } else {
      w[i] -= lr * direction;
    }
  }
}

template <class T>
TRIREME_INLINE void rmsprop(T* w, const T* g, T* squares, T* mean, T* m, int64_t n, T scale, const StepRates& r) {
  if (mean && m) rmsprop_of<true, true>(w, g, squares, mean, m, n, scale, r);
  else if (mean) rmsprop_of<true, false>(w, g, squares, mean, m, n, scale, r);
  else if (m) rmsprop_of<false, true>(w, g, squares, mean, m, n, scale, r);
  else rmsprop_of<false, false>(w, g, squares, mean, m, n, scale, r);
}

TRIREME_CLONES void adagrad_float(float* w, const float* g, float* sum, int64_t n, float s, const StepRates& r) {
  adagrad(w, g, sum, n, s, r);
}
TRIREME_CLONES void adagrad_double(double* w, const double* g, double* sum, int64_t n, double s, const StepRates& r) {
  adagrad(w, g, sum, n, s, r);
}
TRIREME_CLONES void rmsprop_float(float* w, const float* g, float* squares, float* mean, float* m, int64_t n, float s,
                                  const StepRates& r) {
  rmsprop(w, g, squares, mean, m, n, s, r);
}
TRIREME_CLONES void rmsprop_double(double* w, const double* g, double* squares, double* mean, double* m, int64_t n,
                                   double s, const StepRates& r) {
  rmsprop(w, g, squares, mean, m, n, s, r);
}

}  // namespace

void step_adagrad(const Block<float>& b, const StepRates& rates) {
  adagrad_float(b.weights, b.gradient, b.state[0], b.size, b.scale, rates);
}
void step_adagrad(const Block<double>& b, const StepRates& rates) {
  adagrad_double(b.weights, b.gradient, b.state[0], b.size, b.scale, rates);
}
void step_rmsprop(const Block<float>& b, const StepRates& rates, bool centered) {
  rmsprop_float(b.weights, b.gradient, b.state[0], centered ? b.state[1] : nullptr, b.state[centered ? 2 : 1], b.size,
                b.scale, rates);
}
void step_rmsprop(const Block<double>& b, const StepRates& rates, bool centered) {
  rmsprop_double(b.weights, b.gradient, b.state[0], centered ? b.state[1] : nullptr, b.state[centered ? 2 : 1], b.size,
                 b.scale, rates);
}

}  // namespace trireme::kernels
