#include "update/server_optimizer.h"

#include <ATen/ATen.h>

namespace trireme {

const char* name_of(ServerOptimizerOptions::Kind kind) {
  using Kind = ServerOptimizerOptions::Kind;
  switch (kind) {
    case Kind::average: return "average";
    case Kind::adagrad: return "adagrad";
    case Kind::adam: return "adam";
    case Kind::yogi: return "yogi";
  }
  return "";
}

void ServerOptimizer::step(std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& update) {
  using Kind = ServerOptimizerOptions::Kind;
  const bool adaptive = options_.kind != Kind::average;
  if (m_.empty())
    for (const at::Tensor& u : update) {
      m_.push_back(at::zeros_like(u));
      if (adaptive) v_.push_back(at::full_like(u, options_.tau * options_.tau));
    }
  for (size_t p = 0; p < weights.size(); ++p) {
    at::Tensor& m = m_[p];
    if (!adaptive) {
      m.mul_(options_.momentum).add_(update[p]);
      weights[p].add_(m.to(weights[p].scalar_type()), options_.learning_rate);
      continue;
    }
    m.mul_(options_.beta1).add_(update[p], 1 - options_.beta1);
    at::Tensor& v = v_[p];
    const at::Tensor square = update[p] * update[p];
    if (options_.kind == Kind::adagrad) v.add_(square);
    if (options_.kind == Kind::adam) v.mul_(options_.beta2).add_(square, 1 - options_.beta2);
    if (options_.kind == Kind::yogi) v.sub_(square * (v - square).sign(), 1 - options_.beta2);
    weights[p].add_((m / v.sqrt().add_(options_.tau)).to(weights[p].scalar_type()), options_.learning_rate);
  }
}

void ServerOptimizer::fields(StateFields& fields, const std::vector<at::Tensor>& weights) {
  fields.weights_if_any("server optimizer m", m_, weights, at::kDouble);
  fields.weights_if_any("server optimizer v", v_, weights, at::kDouble);
}

}  // namespace trireme
