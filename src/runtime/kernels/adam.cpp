// Adam, AdamW and LAMB. Compiled with -fno-math-errno: a square root that may set errno is not vectorised.
#include <cmath>

#include "base/vector_code.h"
#include "runtime/kernels/update.h"

namespace trireme::kernels {
namespace {

template <class T>
TRIREME_INLINE void adam(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v, int64_t n, T scale,
                         const StepRates& r, bool decoupled) {
  const T b1 = T(r.beta1), b2 = T(r.beta2), epsilon = T(r.epsilon), size = T(r.learning_rate / r.correction1);
  const T root = T(std::sqrt(r.correction2)), shrink = decoupled ? T(1 - r.learning_rate * r.decay) : T(1);
  const T decay = decoupled ? T(0) : T(r.decay);
  for (int64_t i = 0; i < n; ++i) {
    T d = g[i] * scale + decay * w[i];
    m[i] = b1 * m[i] + (1 - b1) * d;
    v[i] = b2 * v[i] + (1 - b2) * d * d;
    w[i] = w[i] * shrink - size * m[i] / (std::sqrt(v[i]) / root + epsilon);
  }
}

template <class T>
TRIREME_INLINE void moments(const T* __restrict g, T* __restrict m, T* __restrict v, int64_t n, T scale,
                            const StepRates& r) {
  const T b1 = T(r.beta1), b2 = T(r.beta2);
  for (int64_t i = 0; i < n; ++i) {
    const T d = g[i] * scale;
    m[i] = b1 * m[i] + (1 - b1) * d;
    v[i] = b2 * v[i] + (1 - b2) * d * d;
  }
}

template <class T>
TRIREME_INLINE void lamb(const T* __restrict w, const T* __restrict m, const T* __restrict v, T* __restrict direction,
                         int64_t n, const StepRates& r) {
  const T whole = T(1 / r.correction1), root = T(std::sqrt(r.correction2)), epsilon = T(r.epsilon), decay = T(r.decay);
  for (int64_t i = 0; i < n; ++i) direction[i] = whole * m[i] / (std::sqrt(v[i]) / root + epsilon) + decay * w[i];
}

template <class T>
TRIREME_INLINE void along(T* __restrict w, const T* __restrict direction, int64_t n, T size) {
  for (int64_t i = 0; i < n; ++i) w[i] -= size * direction[i];
}

TRIREME_CLONES void adam_float(float* w, const float* g, float* m, float* v, int64_t n, float s, const StepRates& r,
                               bool decoupled) {
  adam(w, g, m, v, n, s, r, decoupled);
}
TRIREME_CLONES void adam_double(double* w, const double* g, double* m, double* v, int64_t n, double s,
                                const StepRates& r, bool decoupled) {
  adam(w, g, m, v, n, s, r, decoupled);
}
TRIREME_CLONES void moments_float(const float* g, float* m, float* v, int64_t n, float s, const StepRates& r) {
  moments(g, m, v, n, s, r);
}
TRIREME_CLONES void moments_double(const double* g, double* m, double* v, int64_t n, double s, const StepRates& r) {
  moments(g, m, v, n, s, r);
}
TRIREME_CLONES void lamb_float(const float* w, const float* m, const float* v, float* direction, int64_t n,
                               const StepRates& r) {
  lamb(w, m, v, direction, n, r);
}
TRIREME_CLONES void lamb_double(const double* w, const double* m, const double* v, double* direction, int64_t n,
                                const StepRates& r) {
  lamb(w, m, v, direction, n, r);
}
TRIREME_CLONES void along_float(float* w, const float* direction, int64_t n, float size) {
  along(w, direction, n, size);
}
TRIREME_CLONES void along_double(double* w, const double* direction, int64_t n, double size) {
  along(w, direction, n, size);
}

}  // namespace

void step_adam(const Block<float>& b, const StepRates& rates, bool decoupled) {
  adam_float(b.weights, b.gradient, b.state[0], b.state[1], b.size, b.scale, rates, decoupled);
}
void step_adam(const Block<double>& b, const StepRates& rates, bool decoupled) {
  adam_double(b.weights, b.gradient, b.state[0], b.state[1], b.size, b.scale, rates, decoupled);
}
void move_moments(const Block<float>& b, const StepRates& rates) {
  moments_float(b.gradient, b.state[0], b.state[1], b.size, b.scale, rates);
}
void move_moments(const Block<double>& b, const StepRates& rates) {
  moments_double(b.gradient, b.state[0], b.state[1], b.size, b.scale, rates);
}
void lamb_direction(const Block<float>& b, const StepRates& rates, float* direction) {
  lamb_float(b.weights, b.state[0], b.state[1], direction, b.size, rates);
}
void lamb_direction(const Block<double>& b, const StepRates& rates, double* direction) {
  lamb_double(b.weights, b.state[0], b.state[1], direction, b.size, rates);
}
void step_along(const Block<float>& b, const StepRates& rates, const float* direction) {
  along_float(b.weights, direction, b.size, float(rates.learning_rate * rates.trust));
}
void step_along(const Block<double>& b, const StepRates& rates, const double* direction) {
  along_double(b.weights, direction, b.size, rates.learning_rate * rates.trust);
}

}  // namespace trireme::kernels
