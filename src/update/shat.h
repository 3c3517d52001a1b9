// SHAT-like: elastic averaging whose pulls depend on the number of replicas and on the speed of each.
//
// RECONSTRUCTION. Ko, Kim, "SHAT: a novel asynchronous training algorithm that provides fast model convergence in
// distributed deep learning", 2022, states that scale and heterogeneity are taken into account so that replicas'
// weights differ less; its formulas were not available. Here: an exchange like EASGD's, with separate factors for
// centre and replica,
//     centre += a (x - centre),  x -= b (x - centre),  both from before,
//     a = min(1, beta / n r^h),  b = min(1, pull r^h),
// where r = (s + 1) / n, and s is the number of exchanges that other replicas have made since this replica's last one.
// r is 1 at equal speeds. It is less than 1 for fast replicas, which exchange more often and so move the centre no more
// than slow ones do. It is more than 1 for slow replicas, which are pulled more strongly. h = 0 and pull = beta / n is
// EASGD.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trireme/policy.h"
#include "update/codec.h"

namespace trireme {

struct ShatOptions {
  int64_t period = 10;  ///< steps
  double beta = 0.9;
  double pull = 0.9;
  double heterogeneity = 1;  ///< h
  int shards = 1;
  std::optional<Codec> compression = {};  ///< of what replicas send, with error feedback

  std::string description() const;  ///< the policy's description with these options
};

/// `replicas`: the number of replicas of the run.
std::unique_ptr<UpdatePolicy> shat(const ShatOptions& options, int replicas);

}  // namespace trireme
