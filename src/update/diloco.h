// DiLoCo: replicas train independently for many steps. Their mean progress is the gradient of an outer optimizer.
//
// Douillard et al., "DiLoCo: distributed low-communication training of language models", 2023: every H steps D = mean
// of (theta - x_i), theta = Nesterov SGD of (theta, D), x_i = theta. Inner optimizers keep their state. With outer rate
// 1 and momentum 0 it is local SGD.
//
// Streaming (Douillard et al., "Streaming DiLoCo with overlapping communication", 2025): the weights are cut into
// fragments, each with its own turn within the H steps. The exchange of a fragment lasts `overlap` steps, then x = mix
// x + (1 - mix) theta. Outer gradients may be sent in 4 bits (e3m0.h) and are added in float32. In the paper a fragment
// consists of layers; here it is a contiguous range of all elements, bucket after bucket, of equal size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "trireme/policy.h"
#include "update/codec.h"

namespace trireme {

struct DilocoOptions {
  int64_t every = 500;  ///< H, in steps; all replicas make the same number of steps
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;  ///< momentum of Nesterov SGD
  int fragments = 1;            ///< at most `every`
  int64_t overlap = 0;          ///< in steps, less than `every`
  double mix = 0;  ///< share of the replica's own weights that remains when a fragment arrives; alpha in the paper
  bool four_bits = false;
  std::optional<Codec> compression = {};  ///< of outer gradients, with error feedback; not beside four_bits
};

std::unique_ptr<UpdatePolicy> diloco(const DilocoOptions& options);

}  // namespace trireme
