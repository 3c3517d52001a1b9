// A profile of one model on this machine within a budget of time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profile/layer_sites.h"
#include "profile/profile.h"
#include "runtime/optimizer.h"

namespace trireme {

struct ProfileRequest {
  std::vector<int64_t> samples;       ///< of a worker's call: micro-batches, or their data shards
  std::vector<int> tensors{1, 2, 4};  ///< degrees; where a layer offers no option there is nothing to measure
  OptimizerConfig optimizer;
  double seconds = 60;  ///< budget
  int threads = 1;      ///< of a worker's operators
};

struct ProfileReport {
  int measured = 0;                  ///< layers, counted once per option, degree and number of samples
  int known = 0;                     ///< were in the profile before
  std::vector<std::string> skipped;  ///< "32 samples at tensor degree 1": too long for the budget
  double seconds = 0;                ///< that it took
};

/// Powers of two up to `batch`, and the batch.
std::vector<int64_t> usual_samples(int64_t batch);

/// Adds to `profile`, which must be of this machine (or empty: it becomes of this machine), what it does not have yet:
/// links, updates, device, then layers, the cheapest number of samples and degree first (degree 1 above all), as long
/// as the budget allows. `progress` hears what is being measured.
ProfileReport extend_profile(
    Profile& profile, const LayerSites& sites, const ProfileRequest& request,
    const std::function<void(const std::string&)>& progress = [](const std::string&) {});

}  // namespace trireme
