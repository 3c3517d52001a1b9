// SGD and LARS. Also averages and sums of squares, which all optimizers use.
#include "base/vector_code.h"
#include "runtime/kernels/update.h"

namespace trireme::kernels {
namespace {

template <class T>
TRIREME_INLINE void sgd(T* __restrict w, const T* __restrict g, T* __restrict m, int64_t n, T scale, const StepRates& r,
                        bool nesterov) {
  const T lr = T(r.learning_rate), momentum = T(r.momentum), decay = T(r.decay);
  if (!m) {
    for (int64_t i = 0; i < n; ++i) w[i] -= lr * (g[i] * scale + decay * w[i]);
  } else if (nesterov) {
    for (int64_t i = 0; i < n; ++i) {
      T d = g[i] * scale + decay * w[i];
      m[i] = momentum * m[i] + d;
      w[i] -= lr * (d + momentum * m[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      m[i] = momentum * m[i] + (g[i] * scale + decay * w[i]);
      w[i] -= lr * m[i];
    }
  }
}

/// The learning rate is part of the momentum.
template <class T>
TRIREME_INLINE void lars(T* __restrict w, const T* __restrict g, T* __restrict m, int64_t n, T scale,
                         const StepRates& r) {
  const T rate = T(r.learning_rate * r.trust), momentum = T(r.momentum), decay = T(r.decay);
  if (!m) {
    for (int64_t i = 0; i < n; ++i) w[i] -= rate * (g[i] * scale + decay * w[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    m[i] = momentum * m[i] + rate * (g[i] * scale + decay * w[i]);
    w[i] -= m[i];
  }
}

template <class T>
TRIREME_INLINE void blend(T* __restrict average, const T* __restrict x, int64_t n, T share) {
  for (int64_t i = 0; i < n; ++i) average[i] += share * (x[i] - average[i]);
}

template <class T>
TRIREME_INLINE double squares(const T* __restrict x, int64_t n) {
  constexpr int64_t kLanes = 16;  // independent sums that fit vector registers
  double lanes[kLanes] = {};
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += double(x[i + k]) * double(x[i + k]);
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (int64_t i = whole; i < n; ++i) sum += double(x[i]) * double(x[i]);
  return sum;
}

TRIREME_CLONES void sgd_float(float* w, const float* g, float* m, int64_t n, float s, const StepRates& r,
                              bool nesterov) {
  sgd(w, g, m, n, s, r, nesterov);
}
TRIREME_CLONES void sgd_double(double* w, const double* g, double* m, int64_t n, double s, const StepRates& r,
                               bool nesterov) {
  sgd(w, g, m, n, s, r, nesterov);
}
TRIREME_CLONES void lars_float(float* w, const float* g, float* m, int64_t n, float s, const StepRates& r) {
  lars(w, g, m, n, s, r);
}
TRIREME_CLONES void lars_double(double* w, const double* g, double* m, int64_t n, double s, const StepRates& r) {
  lars(w, g, m, n, s, r);
}
TRIREME_CLONES void blend_float(float* average, const float* x, int64_t n, float share) { blend(average, x, n, share); }
TRIREME_CLONES void blend_double(double* average, const double* x, int64_t n, double share) {
  blend(average, x, n, share);
}
TRIREME_CLONES double squares_float(const float* x, int64_t n) { return squares(x, n); }
TRIREME_CLONES double squares_double(const double* x, int64_t n) { return squares(x, n); }

}  // namespace

void step_sgd(const Block<float>& b, const StepRates& rates, bool nesterov) {
  sgd_float(b.weights, b.gradient, b.state[0], b.size, b.scale, rates, nesterov);
}
void step_sgd(const Block<double>& b, const StepRates& rates, bool nesterov) {
  sgd_double(b.weights, b.gradient, b.state[0], b.size, b.scale, rates, nesterov);
}
void step_lars(const Block<float>& b, const StepRates& rates) {
  lars_float(b.weights, b.gradient, b.state[0], b.size, b.scale, rates);
}
void step_lars(const Block<double>& b, const StepRates& rates) {
  lars_double(b.weights, b.gradient, b.state[0], b.size, b.scale, rates);
}
void move_average(float* average, const float* values, int64_t size, double share) {
  blend_float(average, values, size, float(share));
}
void move_average(double* average, const double* values, int64_t size, double share) {
  blend_double(average, values, size, share);
}
double square_sum(const float* values, int64_t size) { return squares_float(values, size); }
double square_sum(const double* values, int64_t size) { return squares_double(values, size); }

}  // namespace trireme::kernels
