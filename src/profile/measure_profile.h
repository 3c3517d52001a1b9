// Measures a profile of one model on this machine within a time budget.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profile/layer_sites.h"
#include "profile/profile.h"
#include "runtime/optimizer.h"

namespace trireme {

struct ProfileRequest {
  std::vector<int64_t> samples;       ///< samples per call of a worker: micro-batches or their data shards
  std::vector<int> tensors{1, 2, 4};  ///< degrees; nothing is measured if a layer has no option at a degree
  OptimizerConfig optimizer;
  double seconds = 60;  ///< budget
  int threads = 1;      ///< intra-op threads of a worker
};

struct ProfileReport {
  int measured = 0;                  ///< number of layers, counted once per option, degree and number of samples
  int known = 0;                     ///< number that the profile already had
  std::vector<std::string> skipped;  ///< "32 samples at tensor degree 1": did not fit into the budget
  double seconds = 0;                ///< duration
  double machine_seconds = 0;        ///< of it: device, links and updates, which are measured whatever the budget is
};

/// The powers of two below `batch`, and `batch`.
std::vector<int64_t> usual_samples(int64_t batch);

/// True if extend_profile() would measure links or updates, which it does whatever the budget is. `profile`: empty, or
/// of this machine.
bool lacks_links_or_updates(const Profile& profile, const ProfileRequest& request, Precision precision);

/// Adds the missing measurements to `profile`, which must be of this machine or empty (then it becomes one of this
/// machine): device, links, updates, then layers. Layers are measured cheapest number of samples and degree first, with
/// priority for degree 1, while the budget allows. `progress` is called with the name of each measurement.
ProfileReport extend_profile(
    Profile& profile, const LayerSites& sites, const ProfileRequest& request,
    const std::function<void(const std::string&)>& progress = [](const std::string&) {});

}  // namespace trireme
