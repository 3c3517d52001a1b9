// Internal to predict_memory: the bytes of one rank's tensors.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "cost/layer_costs.h"
#include "cost/memory_options.h"
#include "program/program.h"

namespace trireme {

/// The time of an instruction on a rank: step, position in its list.
using Moment = std::pair<int, int>;

/// Sizes that all ranks of a program share.
class ProgramSizes {
 public:
  ProgramSizes(const Program& program, const Model& model, const LayerCosts& layers, const MemoryOptions& options);

  const Program& program() const { return program_; }
  const Model& model() const { return model_; }
  const MemoryOptions& options() const { return options_; }

  int64_t master_bytes() const { return master_bytes_; }  ///< bytes per element
  int64_t compute_bytes() const { return compute_bytes_; }
  /// True if a bucket computes with a narrower copy of its weights.
  bool is_narrow(const Bucket& bucket) const { return compute_bytes_ < master_bytes_ && !bucket.full_precision; }
  int64_t element_bytes(NodeId node) const { return element_bytes_[size_t(node)]; }
  /// Bytes per element of a model input, in the data set's type.
  int64_t loaded_bytes(NodeId input) const;

  int64_t samples(int micro_batch) const { return samples_[size_t(micro_batch)]; }
  Shape global_shape(NodeId node, int64_t samples) const;
  const LayerMemory& layer(OpId op, int64_t share);
  /// The bucket of a parameter shard, and the shard's index in it.
  struct Place {
    BucketId bucket;
    int shard;
  };
  /// The time at which `rank` sends or receives (by `role`) the redistribution of `instruction` for `batch`.
  Moment moment_of(RedistributionRole role, const Instruction& instruction, int rank, int batch);
  /// Returns the bytes that a member of a sum receives from the others while it adds `part_bytes`; 0 for threads, which
  /// read each other's memory.
  int64_t summands(int64_t part_bytes, int members) const { return options_.messages ? part_bytes * (members - 1) : 0; }
  /// The same for the sum of a whole tensor, of which each member adds a part.
  int64_t summands_of_all_reduce(int64_t elements, int64_t element_bytes, int members) const;
  const std::vector<Place>& places(int parameter) const { return places_[size_t(parameter)]; }

 private:
  void find_element_bytes();

  const Program& program_;
  const Model& model_;
  const LayerCosts& layers_;
  const MemoryOptions options_;
  const int64_t master_bytes_, compute_bytes_;
  std::vector<int64_t> element_bytes_;      // by node
  std::vector<int64_t> samples_;            // by micro-batch
  std::vector<std::vector<Place>> places_;  // by parameter of the program: its shards
  std::map<std::pair<OpId, int64_t>, LayerMemory> layers_known_;
  using Message = std::tuple<RedistributionRole, RedistributionId, bool, int>;  // the last element is the micro-batch
  std::map<int, std::map<Message, Moment>> messages_;                           // by list: lag and position
};

/// The memory of a redistribution's result on one rank.
struct ArrivingValue {
  enum class Kind {
    nothing,  ///< the rank receives nothing
    same,     ///< its own tensor or a view of it
    made,     ///< newly allocated memory
  };
  Kind kind = Kind::nothing;
  int64_t bytes = 0;
  int64_t adding = 0;      ///< bytes of the sum in float, while narrower summands arrive
  bool exchanges = false;  ///< the rank communicates with others
  bool reduces = false;    ///< in one collective, which all members leave at the same time
  int64_t received = 0;    ///< between processes: bytes that come from others and are no part of the result
};

/// The sizes of one rank's shards.
class RankSizes {
 public:
  RankSizes(ProgramSizes& all, int rank) : all_(all), rank_(rank) {}

  int rank() const { return rank_; }
  ProgramSizes& all() const { return all_; }
  bool holds(const Layout& layout) const { return layout.mesh.index_of(rank_) >= 0; }
  int64_t bytes(const Layout& layout, NodeId node, int micro_batch) const;
  int64_t gradient_bytes(ValueId value, int micro_batch);
  /// Empty memory if the rank has no samples.
  const LayerMemory& layer(OpId op, int micro_batch);
  /// True if the layer does not run on this rank: it has no samples and the layer does not communicate.
  bool is_idle(OpId op, int micro_batch);
  /// Bytes of the state that a layer carries from step to step.
  int64_t state_bytes(OpId op, int micro_batch) const;
  int64_t buffer_bytes(const Op& op) const;
  const ArrivingValue& arrival(RedistributionId redistribution, bool adjoint, int micro_batch);
  /// Bytes of the receives that are begun before their messages are sent (comm/process/posted_receives.h).
  int64_t posted() const;

 private:
  int64_t share(OpId op, int micro_batch);
  ArrivingValue find_arrival(RedistributionId redistribution, bool adjoint, int64_t samples) const;

  ProgramSizes& all_;
  const int rank_;
  std::map<std::pair<OpId, int64_t>, int64_t> shares_;        // by op and samples of the micro-batch
  std::map<std::pair<ValueId, int64_t>, int64_t> gradients_;  // by value and samples of the micro-batch
  std::map<std::tuple<RedistributionId, bool, int64_t>, ArrivingValue> arrivals_;
};

}  // namespace trireme
