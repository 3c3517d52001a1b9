// The [update] table of an experiment: several replicas that train on shares of the samples, and the options of each
// policy (docs/updates.md).
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
#include "update/failures.h"

namespace trireme {

struct Cluster;
struct Profile;

/// How samples are assigned to the replicas.
/// - batches: each global batch is cut into the replicas' parts, as a data axis cuts it. All replicas make equally many
///   steps.
/// - samples: each replica has its own samples, drawn at random, in its own order.
/// - labels: as samples, but sorted by label and cut into two shards per replica (McMahan et al. 2017).
/// - dirichlet: each label's samples are divided among the replicas by a draw from Dirichlet(alpha) (Hsu, Qi, Brown
///   2019).
/// - quantity: as samples, but the sizes of the shares are drawn from Dirichlet(alpha) (Li, Diao, Chen, He 2022).
/// - features: as samples, but the inputs of each replica's samples have normal noise of another variance (the same
///   paper; data/noisy_set.h).
enum class SampleShares { batches, samples, labels, dirichlet, quantity, features };
const char* name_of(SampleShares shares);

/// Replicas on a modelled clock instead of real time. The seconds of a step are given here, or predicted for a cluster
/// or from a profile.
struct ModelledClock {
  /// A step of a replica of speed 1 takes step_seconds plus sample_seconds for each of its samples.
  double step_seconds = 0, sample_seconds = 0;
  /// The replicas run on its devices, one after the other, and use its links.
  std::shared_ptr<const Cluster> cluster = {};
  std::shared_ptr<const Profile> profile = {};
  double jitter = 0;  ///< see ModelledSteps (update/step_times.h)
  double straggle_probability = 0, straggle_factor = 1;
  LinkSpeed link;  ///< link of each replica
  /// Link of the machine that holds a server's shards. Not set: no limit, or the cluster's.
  std::optional<LinkSpeed> server_link;
  std::vector<Failure> failures = {};  ///< failures of workers; a replica fails with any of its workers
};

struct ReplicaSpec {
  std::string plan = single_strategy();  ///< inner plan of each replica, on `devices` workers
  int devices = 1;                       ///< workers of a replica
  /// True: Experiment::batch is the batch of each replica. False: the batch of all replicas together.
  bool batch_per_replica = false;
  SampleShares shares = SampleShares::batches;
  double alpha = 0.5;                  ///< parameter of dirichlet and quantity
  double feature_noise = 0.1;          ///< parameter of features: the variance of the last replica's noise
  std::optional<ModelledClock> clock;  ///< not set: real time
  /// Options of each policy as in the file: TOML assignments ("every=...") by policy.
  std::map<std::string, std::vector<std::string>> options;
  /// Where each of them stands, for messages: "e.toml:12: update.fedavg.every" by "fedavg.every".
  std::map<std::string, std::string> places = {};
  std::string where;  ///< "e.toml: update", for messages
};

/// Reads the table. Relative paths count from `folder`, the experiment's. Errors (user).
ReplicaSpec read_replica_spec(const ConfigTable& update, const std::filesystem::path& folder = {});

/// True if the strategy begins with a policy's name: "local-sgd,every=16 steps".
bool is_update_policy(const std::string& strategy);

/// Creates the policy that the strategy names, with the options of its table and those of the text, which override
/// them. Errors (user): unknown options; bad values; an optimizer that the policy does not support.
std::unique_ptr<UpdatePolicy> make_policy(const std::string& strategy, const ReplicaSpec& spec, const RunFacts& facts);

/// Returns where the option of the strategy's policy is given, for messages: in the strategy, or in the policy's table.
std::string place_of_option(const std::string& strategy, const ReplicaSpec& spec, const std::string& key);

/// Returns the strategy with its table's options as one text, which a plan stores. Errors (user): a key given twice.
std::string policy_text(const std::string& strategy, const ReplicaSpec& spec);

}  // namespace trireme
