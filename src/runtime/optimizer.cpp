#include "runtime/optimizer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/vector_code.h"

namespace trireme {
namespace {

// Small enough that the gradient sum stays in the first-level cache between summing and updating.
constexpr int64_t kBlock = 2048;

struct Rates {
  double lr, momentum, decay, beta1, beta2, epsilon, correction1, correction2;
  bool nesterov, decoupled;
};

template <class T>
TRIREME_INLINE void add_into(T* __restrict sum, const T* __restrict x, int64_t n, bool first) {
  if (first) std::memcpy(sum, x, size_t(n) * sizeof(T));
  else
    for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

template <class T>
TRIREME_INLINE void sgd(T* __restrict w, const T* __restrict g, T* __restrict m, int64_t n, T scale, const Rates& r) {
  const T lr = T(r.lr), momentum = T(r.momentum), decay = T(r.decay);
  if (!m) {
    for (int64_t i = 0; i < n; ++i) w[i] -= lr * (g[i] * scale + decay * w[i]);
  } else if (r.nesterov) {
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

template <class T>
TRIREME_INLINE void adam(T* __restrict w, const T* __restrict g, T* __restrict m, T* __restrict v, int64_t n, T scale,
                         const Rates& r) {
  const T b1 = T(r.beta1), b2 = T(r.beta2), epsilon = T(r.epsilon), size = T(r.lr / r.correction1);
  const T root = T(std::sqrt(r.correction2)), shrink = r.decoupled ? T(1 - r.lr * r.decay) : T(1);
  const T decay = r.decoupled ? T(0) : T(r.decay);
  for (int64_t i = 0; i < n; ++i) {
    T d = g[i] * scale + decay * w[i];
    m[i] = b1 * m[i] + (1 - b1) * d;
    v[i] = b2 * v[i] + (1 - b2) * d * d;
    w[i] = w[i] * shrink - size * m[i] / (std::sqrt(v[i]) / root + epsilon);
  }
}

TRIREME_CLONES void add_float(float* sum, const float* x, int64_t n, bool first) { add_into(sum, x, n, first); }
TRIREME_CLONES void add_double(double* sum, const double* x, int64_t n, bool first) { add_into(sum, x, n, first); }
TRIREME_CLONES void add_bfloat16(float* __restrict sum, const uint16_t* __restrict x, int64_t n, bool first) {
  if (first)
    for (int64_t i = 0; i < n; ++i) sum[i] = float_of_bfloat16(x[i]);
  else
    for (int64_t i = 0; i < n; ++i) sum[i] += float_of_bfloat16(x[i]);
}
TRIREME_CLONES void sgd_float(float* w, const float* g, float* m, int64_t n, float s, const Rates& r) { sgd(w, g, m, n, s, r); }
TRIREME_CLONES void sgd_double(double* w, const double* g, double* m, int64_t n, double s, const Rates& r) { sgd(w, g, m, n, s, r); }
TRIREME_CLONES void adam_float(float* w, const float* g, float* m, float* v, int64_t n, float s, const Rates& r) {
  adam(w, g, m, v, n, s, r);
}
TRIREME_CLONES void adam_double(double* w, const double* g, double* m, double* v, int64_t n, double s, const Rates& r) {
  adam(w, g, m, v, n, s, r);
}
TRIREME_CLONES void narrow_all(uint16_t* __restrict out, const float* __restrict in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = bfloat16_of_float(in[i]);
}

/// Adds `count` elements of a gradient, from element `offset`, to a block.
void add_gradient(float* sum, const at::Tensor& gradient, int64_t offset, int64_t count, bool first) {
  if (gradient.scalar_type() == at::kBFloat16)
    add_bfloat16(sum, static_cast<const uint16_t*>(gradient.data_ptr()) + offset, count, first);
  else
    add_float(sum, gradient.data_ptr<float>() + offset, count, first);
}
void add_gradient(double* sum, const at::Tensor& gradient, int64_t offset, int64_t count, bool first) {
  add_double(sum, gradient.data_ptr<double>() + offset, count, first);
}
void step_block(OptimizerConfig::Kind kind, float* w, const float* g, float* a, float* b, int64_t n, double scale, const Rates& r) {
  kind == OptimizerConfig::Kind::sgd ? sgd_float(w, g, a, n, float(scale), r) : adam_float(w, g, a, b, n, float(scale), r);
}
void step_block(OptimizerConfig::Kind kind, double* w, const double* g, double* a, double* b, int64_t n, double scale,
                const Rates& r) {
  kind == OptimizerConfig::Kind::sgd ? sgd_double(w, g, a, n, scale, r) : adam_double(w, g, a, b, n, scale, r);
}
void write_compute(uint16_t* out, const float* in, int64_t n) { narrow_all(out, in, n); }
void write_compute(uint16_t*, const double*, int64_t) { check_internal(false, "a bfloat16 copy belongs to float32 weights"); }

template <class T>
void update_typed(const OptimizerConfig& config, const SliceUpdate& u) {
  const Rates rates{u.learning_rate, config.momentum, config.weight_decay, config.beta1, config.beta2, config.epsilon,
                    1 - std::pow(config.beta1, double(u.step)), 1 - std::pow(config.beta2, double(u.step)), config.nesterov,
                    config.kind == OptimizerConfig::Kind::adamw};
  T* master = u.master->data_ptr<T>() + u.slice.begin;
  auto* compute = u.compute ? static_cast<uint16_t*>(u.compute->data_ptr()) + u.slice.begin : nullptr;
  T* first_state = u.state.size() > 0 ? u.state[0].data_ptr<T>() : nullptr;
  T* second_state = u.state.size() > 1 ? u.state[1].data_ptr<T>() : nullptr;
  alignas(64) T sum[kBlock];
  for (int64_t done = 0; done < u.slice.size(); done += kBlock) {
    const int64_t n = std::min(kBlock, u.slice.size() - done);
    for (size_t c = 0; c < u.gradients.size(); ++c) add_gradient(sum, u.gradients[c], u.gradient_offset + done, n, c == 0);
    step_block(config.kind, master + done, sum, first_state ? first_state + done : nullptr,
               second_state ? second_state + done : nullptr, n, u.gradient_scale, rates);
    if (compute) write_compute(compute + done, master + done, n);
  }
}

template <class T>
void sum_typed(std::span<const at::Tensor> gradients, Range slice, T* sum) {
  for (int64_t done = 0; done < slice.size(); done += kBlock) {
    const int64_t n = std::min(kBlock, slice.size() - done);
    for (size_t c = 0; c < gradients.size(); ++c) add_gradient(sum + done, gradients[c], slice.begin + done, n, c == 0);
  }
}

}  // namespace

OptimizerConfig::Kind parse_optimizer(std::string_view text, std::string_view key) {
  if (text == "sgd") return OptimizerConfig::Kind::sgd;
  if (text == "adam") return OptimizerConfig::Kind::adam;
  if (text == "adamw") return OptimizerConfig::Kind::adamw;
  fail_user({std::string(key), fmt::format("\"{}\"", text), "is not an optimizer", "use sgd, adam or adamw"});
}

int optimizer_state_count(const OptimizerConfig& config) {
  if (config.kind != OptimizerConfig::Kind::sgd) return 2;
  return config.momentum != 0 ? 1 : 0;
}

void sum_gradients(std::span<const at::Tensor> gradients, Range slice, at::Tensor& sum) {
  if (sum.scalar_type() == at::kDouble) sum_typed(gradients, slice, sum.data_ptr<double>());
  else sum_typed(gradients, slice, sum.data_ptr<float>());
}

void update_slice(const OptimizerConfig& config, const SliceUpdate& update) {
  if (update.slice.empty()) return;
  if (update.master->scalar_type() == at::kDouble) update_typed<double>(config, update);
  else update_typed<float>(config, update);
}

}  // namespace trireme
