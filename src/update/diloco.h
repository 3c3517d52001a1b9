// DiLoCo: replicas train on their own for many steps; their mean progress is the gradient of an outer optimizer.
//
// Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023: every H steps D = mean
// of (theta - x_i), theta = Nesterov SGD of (theta, D), x_i = theta. Inner optimizers keep their state. Outer rate 1
// and momentum 0 is local SGD.
//
// Streaming (Douillard et al., "Streaming DiLoCo with overlapping communication", 2025): the weights are cut into
// fragments, each with its own turn within the H steps; the exchange of a fragment goes on for `overlap` steps, then x
// = mix x + (1 - mix) theta; outer gradients may go in 4 bits (e3m0.h), added up in float32. Which weights a fragment
// holds the paper takes from the layers; here a fragment is a stretch of all elements, bucket after bucket, of equal
// size.
#pragma once

#include <cstdint>
#include <memory>

#include "trireme/policy.h"

namespace trireme {

struct DilocoOptions {
  int64_t every = 500;  ///< H, steps; all replicas make equally many
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;  ///< Nesterov's
  int fragments = 1;            ///< at most `every`
  int64_t overlap = 0;          ///< steps, below `every`
  double mix = 0;  ///< share of the replica's own weights that stays when a fragment comes in; the paper's alpha
  bool four_bits = false;
};

std::unique_ptr<UpdatePolicy> diloco(const DilocoOptions& options);

}  // namespace trireme
