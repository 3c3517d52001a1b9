// SHAT-like: elastic averaging whose pulls depend on how many replicas there are and how fast each is.
//
// RECONSTRUCTION. Ko, Kim, "SHAT: a novel asynchronous training algorithm that provides fast model convergence in
// distributed deep learning", 2022, says that scale and heterogeneity are taken into account so that replicas' weights
// differ less; its formulas were not to be had. Here: an exchange as EASGD's, with factors of their own for centre and
// replica,
//     centre += a (x - centre),  x -= b (x - centre),  both from before,
//     a = min(1, beta / n r^h),  b = min(1, pull r^h),
// where r = (s + 1) / n and s the exchanges that others have made since this replica's last: 1 at equal speeds, less
// for fast replicas, which come more often and so move the centre no more than slow ones do; more for slow ones, which
// are pulled nearer. h = 0 and pull = beta / n is EASGD.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/policy.h"

namespace trireme {

struct ShatOptions {
  int64_t period = 10;  ///< steps
  double beta = 0.9;
  double pull = 0.9;
  double heterogeneity = 1;  ///< h
  int shards = 1;

  std::string description() const;  ///< of the policy with these
};

/// `replicas`: of the run.
std::unique_ptr<UpdatePolicy> shat(const ShatOptions& options, int replicas);

}  // namespace trireme
