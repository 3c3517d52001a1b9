// The [update] table of an experiment: several replicas that train on shares of the samples, and what each policy is told (docs/updates.md).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "comm/local/emulated_links.h"
#include "update/policy.h"
#include "update/run_facts.h"

namespace trireme {

/// How samples come to the replicas.
/// - batches: every global batch is cut into the replicas' parts, as a data axis cuts it; all make equally many steps.
/// - samples: each replica has samples of its own, drawn at random, which it takes in an order of its own.
/// - labels: the same with samples sorted by label and cut into two shards per replica (McMahan et al. 2017).
/// - dirichlet: each label's samples are divided over the replicas by a draw from Dirichlet(alpha) (Hsu, Qi, Brown 2019).
enum class SampleShares { batches, samples, labels, dirichlet };
const char* name_of(SampleShares shares);

/// Replicas on a modelled clock in place of real time.
struct ModelledClock {
  double step_seconds = 0, sample_seconds = 0;  ///< a step of a replica of speed 1 takes the first and for each of its samples the second
  double jitter = 0;                ///< see ModelledSteps (update/step_times.h)
  double straggle_probability = 0, straggle_factor = 1;
  LinkSpeed link, server_link;      ///< of each replica; of the machine that holds a server's shards
};

struct ReplicaSpec {
  std::string plan = "single";      ///< of each replica; on "devices" workers
  int devices = 1;                  ///< workers of a replica
  bool batch_per_replica = false;   ///< Experiment::batch is each replica's; else all replicas' together
  SampleShares shares = SampleShares::batches;
  double alpha = 0.5;               ///< of dirichlet
  std::optional<ModelledClock> clock;  ///< not set: real time
  /// Options of each policy as the file has them, TOML assignments "every = ..." by policy.
  std::map<std::string, std::vector<std::string>> options;
  std::string where;                ///< "e.toml: update", for messages
};

/// Errors (user).
ReplicaSpec read_replica_spec(const ConfigTable& update);

/// "local-sgd,every=16 steps": whether it begins with a policy's name.
bool is_update_policy(const std::string& strategy);

/// The policy that the strategy names, with the options of its table and those of the text, which win. Errors (user): unknown options, bad
/// values, an optimizer that the policy cannot do with.
std::unique_ptr<UpdatePolicy> make_policy(const std::string& strategy, const ReplicaSpec& spec, const RunFacts& facts);

}  // namespace trireme
