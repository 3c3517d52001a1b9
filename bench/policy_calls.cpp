// Time of an update policy's calls in a step without communication: the time that the policy adds to such a step.
//
// Usage: policy_calls [ELEMENTS [STEPS]]   (default: 80208 weights, those of mnist-convnet, and 2000 steps)
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/seconds.h"
#include "base/text.h"
#include "trireme/error.h"
#include "update/hub/thread_world.h"
#include "update/registry.h"

namespace {

using namespace trireme;

constexpr int64_t kWarmUp = 10;  // some policies exchange in the first step

/// Policies as in a file's [update] table, with exchanges that never come.
const std::vector<std::string> kPolicies = {
    "policy = \"local-sgd\"\nevery = \"1000000 steps\"",
    "policy = \"async-average\"\nevery = \"1000000 steps\"",
    "policy = \"partial\"\nevery = \"1000000 steps\"",
    "policy = \"easgd\"\nperiod = 1000000",
    "policy = \"eamsgd\"\nperiod = 1000000",
    "policy = \"downpour\"\nfetch_every = 1000000\npush_every = 1000000",
    "policy = \"shat\"\nperiod = 1000000",
    "policy = \"diloco\"\nevery_steps = 1000000",
    "policy = \"streaming-diloco\"\nevery_steps = 1000000",
    "policy = \"fedavg\"\nrounds = 1\nlocal = \"1000000 steps\"",
    "policy = \"fedprox\"\nrounds = 1\nlocal = \"1000000 steps\"",
    "policy = \"fedadam\"\nrounds = 1\nlocal = \"1000000 steps\"",
};

/// Median microseconds of before_step and after_step together.
double microseconds(const std::string& text, int64_t elements, int64_t steps) {
  const ConfigTable table = ConfigTable::from_string(text, "policy");
  const auto update = make_update_policy(table, {.replicas = 1, .seed = 1, .plain_sgd = true});
  ThreadWorld world(1, update->server());
  std::vector<double> seconds;
  run_replicas(world, [&](Hub& hub) {
    ReplicaState state;
    state.weights = {at::zeros({elements})};
    state.moments.resize(1);
    const auto policy = update->for_replica(hub);
    policy->begin(state);
    for (int64_t k = 0; k < steps + kWarmUp; ++k) {
      const StepFacts facts{.step = k, .samples = 128, .learning_rate = 0.01, .ends_epoch = false};
      const double begin = steady_seconds();
      policy->before_step(facts, state);
      policy->after_step(facts, state);
      if (k >= kWarmUp) seconds.push_back(steady_seconds() - begin);
    }
    policy->finish(state);
  });
  std::nth_element(seconds.begin(), seconds.begin() + std::ptrdiff_t(seconds.size() / 2), seconds.end());
  return 1e6 * seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int64_t elements = argc > 1 ? std::stoll(argv[1]) : 80208, steps = argc > 2 ? std::stoll(argv[2]) : 2000;
    fmt::print("Calls of a policy in a step without communication, {} float32 weights, median of {} steps:\n\n",
               elements, steps);
    fmt::print("| policy | us a step |\n|---|---|\n");
    for (const std::string& policy : kPolicies) {
      const size_t begin = policy.find('"') + 1;
      fmt::print("| `{}` | {:.2f} |\n", policy.substr(begin, policy.find('"', begin) - begin),
                 microseconds(policy, elements, steps));
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "policy_calls: {}\n", first_line(error));
    return 1;
  }
}
