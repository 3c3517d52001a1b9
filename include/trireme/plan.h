// A plan: who holds what, and when replicas agree. A plain value that can be saved, read, edited and compared; nothing
// in the runtime knows the names of strategies.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/placement.h"
#include "trireme/schedule.h"

namespace trireme {

/// How one layer lies on the workers of its stage. data * tensor equals the number of the stage's workers.
struct LayerPlan {
  int stage = 0;
  int data = 1;                     ///< degree of the data axis
  int tensor = 1;                   ///< degree of the tensor axis
  std::string split = "replicate";  ///< name of one of the layer's sharding options at that tensor degree
  /// Not empty: the layer's forward is computed again in backward instead of keeping its activations. Consecutive
  /// layers of one stage with the same label are recomputed together; only what enters them is kept.
  std::string recompute = "";
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

/// What is divided over the workers that hold the same parameters (Rajbhandari et al., "ZeRO", SC 2020). Each level
/// includes the ones before: optimizer state, gradients, weights.
enum class OptimizerSharding { none, zero1, zero2, zero3 };
inline constexpr std::array kOptimizerShardings = {OptimizerSharding::none, OptimizerSharding::zero1,
                                                   OptimizerSharding::zero2, OptimizerSharding::zero3};
const char* name_of(OptimizerSharding sharding);

/// How gradients travel between replicas. bf16: rounded to bfloat16, added in float32. powersgd: low rank with error
/// feedback (Vogels et al., "PowerSGD", NeurIPS 2019). Both change the curve.
struct Compression {
  enum class Kind { none, bf16, powersgd };
  Kind kind = Kind::none;
  int rank = 4;  ///< of powersgd
  friend bool operator==(const Compression&, const Compression&) = default;
};
const char* name_of(Compression::Kind kind);

/// Two levels. The inner plan: how one replica computes a gradient and updates its weights, on `devices` workers (all
/// members but the last two). The agreement: how many replicas there are, and what makes their weights one again.
struct Plan {
  std::string name;   ///< "data", "hybrid:pipeline", or the user's own
  std::string model;  ///< the model's name and fingerprint: a plan fits one model only
  std::string model_fingerprint;
  int devices = 1;
  std::string schedule{usual_schedule().name};
  bool vertical_sync =
      false;  ///< of schedules that have it: all stages use the version of the weights that the first one used
  int micro_batches = 1;
  bool recompute_last = true;  ///< false: "except_last", the last micro-batch keeps its activations
  OptimizerSharding optimizer_sharding = OptimizerSharding::none;
  Compression compression;
  /// By world rank: which device of a cluster file, counted from 0 in the file's order. Empty: the first ones, in that
  /// order.
  std::vector<int> cluster_devices;
  std::vector<double> speeds;  ///< by world rank, relative; data shards are sized in proportion. Empty: equal
  /// World ranks of each stage, ascending. Two stages have the same workers (chunks of an interleaved schedule) or none
  /// in common; together they cover 0..devices-1.
  std::vector<std::vector<int>> stages;
  std::vector<LayerPlan> layers;  ///< by node id; entries of model inputs are unused
  int replicas =
      1;  ///< each with `devices` workers and weights of its own: replica r has the ranks from r * devices on
  std::string
      agreement;  ///< an update policy with its options (update/registry.h), "local-sgd,every=16 steps"; empty: none

  /// Of all replicas.
  int workers() const { return replicas * devices; }
  /// How one replica trains: without the agreement.
  Plan inner() const;
  /// The mesh of a layer: the stage's workers, data-major, tensor fastest. Its shares are the summed speeds of each
  /// data index's tensor group; empty where those are equal.
  Mesh mesh_of(NodeId node) const;
  /// Distinct sets of workers among the stages: less than the stages where workers have chunks, more than the
  /// pipeline's depth where stages need each other (branches).
  int positions() const;
  /// "data 2 x pipeline 2, 4 micro-batches", "one device", "data 4, then tensor 4 from fc1"; then what is not usual:
  /// schedule, chunks, sharding, recompute, compression, speeds, the cluster's devices; before that "4 x " where there
  /// are several replicas. Needs a validated plan.
  std::string in_short(const Model& model) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// A plan may be for more devices than a run on this machine can have (kMaxDevices of base/memory.h).
constexpr int kMaxPlanDevices = 1 << 16;

/// The sharding option that the plan names for a layer. The plan must be validated.
ShardingOption option_of(const Plan& plan, const Model& model, NodeId node);

/// The placement in which a layer needs the gradient of its output: a gradient lies like its value, but a summand's
/// gradient is needed whole by everyone who summed.
Placement gradient_needed(const Placement& output);

/// Whether every data shard of `mesh` gets at least one of `samples`.
bool fills_all_shards(const Mesh& mesh, int64_t samples);

/// `batch`: samples of one replica's step. Throws a user error naming `where` (file or strategy), the layer or stage,
/// and what would be right: a plan for another model, a split that the layer does not have at that degree, degrees that
/// do not multiply to the stage's workers, workers in no stage or in stages that differ, tied parameters placed
/// differently, more micro-batches or data shards than samples, speeds that are no speeds, a cluster's device twice,
/// several replicas without an agreement. Schedules are checked when the plan is compiled.
void validate(const Plan& plan, const Model& model, int64_t batch, const std::string& where);

/// What equals a new Plan's default is left out, but for what every plan has.
nlohmann::json to_json(const Plan& plan, const Model& model);
/// `where` is named in errors. The result still has to be validated.
Plan plan_from_json(const nlohmann::json& json, const Model& model, const std::string& where);
Plan read_plan(const std::filesystem::path& file, const Model& model);

}  // namespace trireme
