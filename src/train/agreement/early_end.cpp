#include "train/agreement/early_end.h"

#include <memory>
#include <string>
#include <utility>

#include "forecast/agreement_plan.h"
#include "metrics/early_stopping.h"
#include "plan/strategies.h"
#include "trireme/error.h"
#include "update/federated.h"

namespace trireme {

void check_early_stopping(const RunSpec& experiment, const TaskData& data, const Plan& plan, ReplicaHosting hosting) {
  const EarlyStoppingSpec& spec = experiment.early_stopping;
  check_early_stopping(spec, data.train->task(), data.train->classes());
  if (!spec.wanted() || plan.agreement.empty()) return;
  const std::unique_ptr<UpdatePolicy> update = make_policy(plan.agreement, {}, facts_of(experiment, plan));
  if (dynamic_cast<const FederatedPolicy*>(update.get())) return;  // it ends with a round
  const auto refuse = [&](std::string why, std::string next) {
    fail_user({spec.where, plan.name, std::move(why), std::move(next)});
  };
  if (hosting == ReplicaHosting::clients)
    refuse("clients train to the end of their length: a server ends only rounds",
           "use a federated policy such as fedavg, or trireme launch train, or leave out early_stopping and "
           "stop_at_target");
  if (update->evaluates_together()) return;  // then all replicas learn the decision where they are
  if (experiment.replicas.clock && !experiment.replicas.clock->failures.empty())
    refuse("its workers fail, and a lost replica does not come to the place where all of them end",
           "leave out the failures of [update.virtual], or early_stopping and stop_at_target");
}

}  // namespace trireme
