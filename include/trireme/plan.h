// A plan describes what each worker holds, and when replicas agree on their weights. It is a plain value that can be
// saved, read, edited and compared. The runtime does not know the names of strategies.
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

/// How one layer is placed on the workers of its stage. data * tensor equals the number of the stage's workers.
struct LayerPlan {
  int stage = 0;
  int data = 1;                     ///< degree of the data axis
  int tensor = 1;                   ///< degree of the tensor axis
  std::string split = "replicate";  ///< name of one of the layer's sharding options at that tensor degree
  /// If not empty, backward computes the layer's forward again, and the layer's activations are not kept. Consecutive
  /// layers of one stage with the same label are recomputed together; only their common inputs are kept.
  std::string recompute = "";
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

/// What is sharded over the workers that hold the same parameters (Rajbhandari et al., "ZeRO", SC 2020). zero1:
/// optimizer state; zero2: also gradients; zero3: also weights.
enum class OptimizerSharding { none, zero1, zero2, zero3 };
inline constexpr std::array kOptimizerShardings = {OptimizerSharding::none, OptimizerSharding::zero1,
                                                   OptimizerSharding::zero2, OptimizerSharding::zero3};
const char* name_of(OptimizerSharding sharding);

/// How gradients are compressed between data-parallel workers. bf16: rounded to bfloat16, added in float32.
/// bf16_stored: the same, and each worker adds up and stores its own gradients in bfloat16, which halves their memory
/// (only where layers compute in bfloat16). powersgd: low rank with error feedback (Vogels et al., "PowerSGD", NeurIPS
/// 2019). All change the training curve.
struct Compression {
  enum class Kind { none, bf16, bf16_stored, powersgd };
  Kind kind = Kind::none;
  int rank = 4;  ///< of powersgd
  bool sends_bf16() const { return kind == Kind::bf16 || kind == Kind::bf16_stored; }
  friend bool operator==(const Compression&, const Compression&) = default;
};
const char* name_of(Compression::Kind kind);

/// A plan has two levels. The inner plan (all members except the last two) describes how one replica computes a
/// gradient and updates its weights, on `devices` workers. The agreement describes how many replicas there are and how
/// their weights become equal again.
struct Plan {
  std::string name;   ///< "data", "hybrid:pipeline", or the user's own
  std::string model;  ///< the model's name and fingerprint: a plan fits one model only
  std::string model_fingerprint;
  int devices = 1;
  std::string schedule{usual_schedule().name};
  /// For schedules that support it: all stages use the version of the weights that the first stage used.
  bool vertical_sync = false;
  int micro_batches = 1;
  bool recompute_last = true;  ///< false: "except_last", the last micro-batch keeps its activations
  /// Whether backward repeats the redistributions between recomputed layers. True: the layers of one label and the
  /// redistributions between them are recomputed as one run, of which only the inputs are kept (full recompute of
  /// Megatron-LM). False: a redistribution ends a run, and its result is kept.
  bool recompute_communication = false;
  /// How stages send a value of which every tensor rank has a whole copy. True: each tensor rank sends one slice, and
  /// the next stage gathers the slices (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
  /// Clusters Using Megatron-LM", SC 2021, section 4.1). Only between stages of the same degrees. False: each tensor
  /// rank sends the whole value.
  bool scatter_messages = false;
  OptimizerSharding optimizer_sharding = OptimizerSharding::none;
  /// Size of the groups for optimizer sharding. The workers that hold the same parameters form groups of this many
  /// consecutive workers. The members of a group divide what is sharded; the groups hold copies of each other, and the
  /// gradients of a slice are summed over its copies (Zhang et al., "MiCS", VLDB 2022; PyTorch's HYBRID_SHARD). So
  /// weights are gathered within a group only. If no more workers than this hold a parameter, they form one group. 0:
  /// always one group.
  int sharding_group = 0;
  Compression compression;
  /// By world rank: the device of a cluster file, counted from 0 in the file's order. Empty: the first devices, in that
  /// order.
  std::vector<int> cluster_devices;
  std::vector<double> speeds;  ///< by world rank, relative; data shards are sized in proportion. Empty: equal
  /// World ranks of each stage, ascending. Two stages have the same workers (chunks of an interleaved schedule) or no
  /// worker in common. Together they cover 0..devices-1.
  std::vector<std::vector<int>> stages;
  std::vector<LayerPlan> layers;  ///< by node id; entries of model inputs are unused
  /// Each replica has `devices` workers and weights of its own. Replica r has the ranks from r * devices on.
  int replicas = 1;
  /// An update policy with its options (docs/updates.md): "local-sgd,every=16 steps". Empty: none.
  std::string agreement;

  /// Returns the number of workers of all replicas.
  int workers() const { return replicas * devices; }
  /// True if a layer's batch is divided among several workers.
  bool divides_batch() const;
  /// Returns the plan of one replica, without the agreement.
  Plan inner() const;
  /// Returns the mesh of a layer, `node`, not of an input: the stage's workers, data-major, tensor fastest. Its shares
  /// are the summed speeds of each data index's tensor group; empty if these are equal.
  Mesh mesh_of(NodeId node) const;
  /// Returns the number of distinct worker sets among the stages. It is less than the number of stages if workers have
  /// chunks. It is more than the pipeline's depth if stages need each other (branches).
  int positions() const;
  /// Returns a short description: "data 2 x pipeline 2, 4 micro-batches", "one device", "data 4, then tensor 4 from
  /// fc1". Settings that are not usual follow: schedule, chunks, sharding, recompute, compression, speeds, the
  /// cluster's devices. With several replicas it begins with "4 x ". The plan must be validated.
  std::string in_short(const Model& model) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Largest number of devices of a plan. A run on this machine can have fewer.
constexpr int kMaxPlanDevices = 1 << 16;

/// Returns the sharding option that the plan names for a layer. `node`: a layer, not an input. The plan must be
/// validated. Errors: internal, if the layer has no such option.
ShardingOption option_of(const Plan& plan, const Model& model, NodeId node);

/// Returns the placement in which a layer needs the gradient of its output. It is the output's placement, except that
/// the gradient of a partial output is needed whole by each worker that contributed to the sum.
Placement gradient_needed(const Placement& output);

/// True if every data shard of `mesh` gets at least one of `samples` samples.
bool fills_all_shards(const Mesh& mesh, int64_t samples);

/// Checks a plan. `batch`: samples of one replica's step. Errors (user), with `where` (file or strategy), the layer or
/// stage, and what would be right: a plan for another model; a split that the layer does not have at that degree;
/// degrees whose product is not the number of the stage's workers; workers in no stage or in stages that differ; tied
/// parameters that are placed differently; more micro-batches or data shards than samples; invalid speeds; a cluster
/// device listed twice; several replicas without an agreement. Schedules are checked when the plan is compiled.
void validate(const Plan& plan, const Model& model, int64_t batch, const std::string& where);

/// Fields that equal the default of a new Plan are omitted, except those that every plan has.
nlohmann::json to_json(const Plan& plan, const Model& model);
/// The result must still be validated. Errors (user), with `where`: not a plan; a missing or unknown key; a value of a
/// wrong type or out of range; an unknown layer. A plan of another model is no error here: validate() reports it.
Plan plan_from_json(const nlohmann::json& json, const Model& model, const std::string& where);
/// As plan_from_json, with the file's path as `where`. Errors (user): also a file that cannot be read or is not JSON.
Plan read_plan(const std::filesystem::path& file, const Model& model);

}  // namespace trireme
