// A plan: who holds what. A plain value that can be saved, read, edited and compared; nothing in the runtime knows the names
// of strategies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/model.h"
#include "tensor/placement.h"

namespace trireme {

/// How one layer lies on the workers of its stage. data * tensor equals the number of the stage's workers.
struct LayerPlan {
  int stage = 0;
  int data = 1;                      ///< degree of the data axis
  int tensor = 1;                    ///< degree of the tensor axis
  std::string split = "replicate";   ///< name of one of the layer's sharding options at that tensor degree
  friend bool operator==(const LayerPlan&, const LayerPlan&) = default;
};

struct Plan {
  std::string name;               ///< "data", "hybrid:pipeline", or the user's own
  std::string model;              ///< the model's name and fingerprint: a plan fits one model only
  std::string model_fingerprint;
  int devices = 1;
  std::string schedule = "gpipe";
  int micro_batches = 1;
  std::vector<std::vector<int>> stages;  ///< world ranks of each stage, ascending; stages are disjoint and cover 0..devices-1
  std::vector<LayerPlan> layers;         ///< by node id; entries of model inputs are unused

  /// The mesh of a layer: the stage's workers, data-major, tensor fastest.
  Mesh mesh_of(NodeId node) const;
  /// "data 2 x pipeline 2 (4 micro-batches)", "single", "data 4, then tensor 4 from fc1".
  std::string in_short(const Model& model) const;
};

/// Throws a user error naming `where` (file or strategy), the layer or stage, and what would be right:
/// a plan for another model, a split that the layer does not have at that degree, degrees that do not multiply to the stage's
/// workers, workers in two stages or none, tied parameters placed differently, more micro-batches or data shards than samples.
void validate(const Plan& plan, const Model& model, int64_t batch, const std::string& where);

nlohmann::json to_json(const Plan& plan, const Model& model);
/// `where` is named in errors. The result still has to be validated.
Plan plan_from_json(const nlohmann::json& json, const Model& model, const std::string& where);
Plan read_plan(const std::filesystem::path& file, const Model& model);

}  // namespace trireme
