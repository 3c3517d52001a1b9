// The [update] table of an experiment: several replicas that train on shares of the samples, and what each policy is
// told (docs/updates.md).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/local/emulated_links.h"
#include "plan/strategies.h"
#include "trireme/config.h"
#include "trireme/policy.h"
#include "trireme/run_facts.h"
#include "update/failures.h"

namespace trireme {

struct Cluster;
struct Profile;

/// How samples come to the replicas.
/// - batches: every global batch is cut into the replicas' parts, as a data axis cuts it; all make equally many steps.
/// - samples: each replica has samples of its own, drawn at random, which it takes in an order of its own.
/// - labels: the same with samples sorted by label and cut into two shards per replica (McMahan et al. 2017).
/// - dirichlet: each label's samples are divided over the replicas by a draw from Dirichlet(alpha) (Hsu, Qi, Brown
/// 2019).
enum class SampleShares { batches, samples, labels, dirichlet };
const char* name_of(SampleShares shares);

/// Replicas on a modelled clock in place of real time. Steps take what is given here, or what is predicted for a
/// cluster or from a profile.
struct ModelledClock {
  double step_seconds = 0,
         sample_seconds = 0;  ///< a step of a replica of speed 1 takes the first and for each of its samples the second
  std::shared_ptr<const Cluster> cluster =
      {};  ///< whose devices the replicas run on, one after the other, and whose links they use
  std::shared_ptr<const Profile> profile = {};
  double jitter = 0;  ///< see ModelledSteps (update/step_times.h)
  double straggle_probability = 0, straggle_factor = 1;
  LinkSpeed link;  ///< of each replica
  std::optional<LinkSpeed>
      server_link;  ///< of the machine that holds a server's shards; not set: no limit, or the cluster's
  std::vector<Failure> failures = {};  ///< of workers: a replica fails with any of its own
};

struct ReplicaSpec {
  std::string plan = single_strategy();  ///< of each replica; on "devices" workers
  int devices = 1;                       ///< workers of a replica
  bool batch_per_replica = false;        ///< Experiment::batch is each replica's; else all replicas' together
  SampleShares shares = SampleShares::batches;
  double alpha = 0.5;                  ///< of dirichlet
  std::optional<ModelledClock> clock;  ///< not set: real time
  /// Options of each policy as the file has them, TOML assignments "every = ..." by policy.
  std::map<std::string, std::vector<std::string>> options;
  std::string where;  ///< "e.toml: update", for messages
};

/// `folder`: the experiment's, from which paths count. Errors (user).
ReplicaSpec read_replica_spec(const ConfigTable& update, const std::filesystem::path& folder = {});

/// "local-sgd,every=16 steps": whether it begins with a policy's name.
bool is_update_policy(const std::string& strategy);

/// The policy that the strategy names, with the options of its table and those of the text, which win. Errors (user):
/// unknown options, bad values, an optimizer that the policy cannot do with.
std::unique_ptr<UpdatePolicy> make_policy(const std::string& strategy, const ReplicaSpec& spec, const RunFacts& facts);

/// The same as one text without tables: what a plan says. Errors (user): a key that is given twice.
std::string policy_text(const std::string& strategy, const ReplicaSpec& spec);

}  // namespace trireme
