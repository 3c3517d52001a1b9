// How a federated server applies the clients' mean update.
//
// Reddi et al., "Adaptive federated optimization", 2021, algorithms 1 and 2, without bias correction as in the paper. D
// is the mean update.
//     average:  m = momentum m + D;  w += rate m
//     others:   m = beta1 m + (1 - beta1) D;  w += rate m / (sqrt(v) + tau)
//     adagrad:  v += D^2      yogi:  v -= (1 - beta2) D^2 sign(v - D^2)      adam:  v = beta2 v + (1 - beta2) D^2
// m starts at 0 and v at tau^2.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/policy.h"

namespace trireme {

struct ServerOptimizerOptions {
  enum class Kind { average, adagrad, adam, yogi } kind = Kind::average;
  double learning_rate = 1;
  double momentum = 0;               ///< for average
  double beta1 = 0.9, beta2 = 0.99;  ///< for the other kinds
  double tau = 1e-3;
};

/// "average", "adam", ...
const char* name_of(ServerOptimizerOptions::Kind kind);

/// Used by one thread at a time. State is stored in double.
class ServerOptimizer {
 public:
  explicit ServerOptimizer(const ServerOptimizerOptions& options) : options_(options) {}
  /// `update`: double, with the same parts as `weights`.
  void step(std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& update);
  /// Saves or restores m and v, under names that begin with "server optimizer". `weights`: as in step().
  void fields(StateFields& fields, const std::vector<at::Tensor>& weights);

 private:
  const ServerOptimizerOptions options_;
  std::vector<at::Tensor> m_, v_;
};

}  // namespace trireme
