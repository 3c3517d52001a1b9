#include "forecast/agreement/agreement_memory.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "forecast/agreement/stand_in.h"
#include "forecast/agreement_plan.h"
#include "update/federated.h"
#include "update/hub/thread_world.h"

namespace trireme {
namespace {

constexpr int64_t kSteps = 64;         // of each replica; what comes less often comes when the run ends
constexpr int64_t kStepsPerEpoch = 2;  // so that what comes once per epoch comes
constexpr int kRounds = 3;             // of a federated policy

/// The account of a replica: one that no worker of this process uses, because their numbers begin at 0.
int account_of(int replica) {
  const int account = kMaxDevices - 1 - replica;
  return account >= 0 && memory_use(account).total() == 0 ? account : kNoDevice;
}

}  // namespace

AgreementMemory predict_agreement_memory(const RunSpec& experiment, const Plan& plan, const StandIn& stand_in) {
  static std::mutex one_at_a_time;  // the accounts are those of the process
  const std::lock_guard lock(one_at_a_time);
  std::vector<int> accounts;
  for (int r = 0; r < plan.replicas; ++r) {
    accounts.push_back(account_of(r));
    if (accounts.back() != kNoDevice) reset_memory_peak(accounts.back());
  }
  const std::unique_ptr<UpdatePolicy> update = make_policy(plan.agreement, {}, facts_of(experiment, plan));
  stand_in.prepare(*update);
  auto* const federated = dynamic_cast<FederatedPolicy*>(update.get());
  if (federated)
    federated->on_round = [federated, rounds = 0](const RoundRecord&, const ModelValues&) mutable {
      if (++rounds == kRounds) federated->stop();
    };
  std::vector<int64_t> between(size_t(plan.replicas));
  ThreadWorld world(plan.replicas, update->server());
  run_replicas(world, [&](Hub& hub) {
    const int account = accounts[size_t(hub.replica())];
    int64_t& held = between[size_t(hub.replica())];
    play(
        hub, *update, stand_in, steps_to_play(experiment, plan, kStepsPerEpoch, federated ? 0 : kSteps),
        [&held, account](double) {
          if (account != kNoDevice) held = std::max(held, memory_use(account).total());
        },
        account);
  });
  AgreementMemory memory;
  for (size_t r = 0; r < accounts.size(); ++r) {
    if (accounts[r] == kNoDevice) continue;
    memory.between = std::max(memory.between, between[r]);
    memory.exchanging = std::max(memory.exchanging, memory_use(accounts[r]).peak);
  }
  memory.between = int64_t(double(memory.between) * stand_in.scale);
  memory.exchanging = int64_t(double(memory.exchanging) * stand_in.scale);
  return memory;
}

}  // namespace trireme
