#include "runtime/migrate/training_state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {
namespace {

int64_t bytes_in(const TensorMap& tensors) {
  int64_t bytes = 0;
  for (const auto& entry : tensors) bytes += int64_t(entry.second.nbytes());
  return bytes;
}

/// Returns the factor of that shard; null if there is none, or one of another rank.
const at::Tensor* factor_of(const TrainingState& state, const std::string& parameter, const ParameterShard& shard,
                            at::IntArrayRef shape) {
  const auto found = state.factors.find(factor_name(parameter, shard.box));
  return found != state.factors.end() && found->second.sizes() == shape ? &found->second : nullptr;
}

/// Overwrites what PowerSGD keeps of a bucket.
void give_factors(const Program& program, BucketId id, const TrainingState& state, Replicas& replicas) {
  const Bucket& bucket = program.buckets[size_t(id)];
  for (const FactorPiece& piece : replicas.factors(id)) {
    const ParameterShard& shard = bucket.shards[size_t(piece.shard)];
    const std::string& name = program.parameters[size_t(shard.parameter)].spec.name;
    const auto error = state.errors.find(name);
    if (error != state.errors.end() && piece.error.defined())
      piece.error.copy_(flat_shard(error->second, shard) / double(bucket.contributors.size()));
    if (const at::Tensor* factor = factor_of(state, name, shard, piece.factor.sizes())) piece.factor.copy_(*factor);
  }
}

}  // namespace

int64_t TrainingState::bytes() const {
  int64_t bytes = 0;
  for (const TensorMap* tensors :
       {&weights, &buffers, &averaged_buffers, &errors, &factors, &carried, &agreement, &best})
    bytes += bytes_in(*tensors);
  for (const auto& entry : optimizer)
    for (const at::Tensor& tensor : entry.second) bytes += int64_t(tensor.nbytes());
  return bytes;
}

std::string factor_name(const std::string& parameter, const Box& box) {
  std::string region;
  for (const Range& range : box) region += fmt::format("{}{}-{}", region.empty() ? "" : ",", range.begin, range.end);
  return fmt::format("{}/{}", parameter, region);
}

std::string parameter_of_factor(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

FactorsLeft factors_left(const Program& program, const TrainingState& state) {
  std::set<int> dropped, drawn;  // indices of parameters
  for (const Bucket& bucket : program.buckets)
    for (const ParameterShard& shard : bucket.shards) {
      const std::string& name = program.parameters[size_t(shard.parameter)].spec.name;
      const auto error = state.errors.find(name);
      if (error == state.errors.end()) continue;
      if (!sends_factors(program, bucket, shard)) {
        if (part_of(error->second, shard.box).ne(0).any().item<bool>()) dropped.insert(shard.parameter);
        continue;
      }
      const Shape shape = shape_of(shard.box);
      if (!factor_of(state, name, shard, {shard.size() / shape[0], program.compression.rank}))
        drawn.insert(shard.parameter);
    }
  FactorsLeft left;
  const auto name_of = [&](int parameter) { return program.parameters[size_t(parameter)].spec.name; };
  std::transform(dropped.begin(), dropped.end(), std::back_inserter(left.errors), name_of);
  std::transform(drawn.begin(), drawn.end(), std::back_inserter(left.factors), name_of);
  return left;
}

void give_state(const Program& program, int rank, const TrainingState& state, Replicas& replicas) {
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    if (!std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank)) continue;
    give_factors(program, b, state, replicas);
    const std::vector<ReplicaPiece> pieces = replicas.pieces(b);
    for (size_t s = 0; s < bucket.shards.size(); ++s) {
      const ParameterShard& shard = bucket.shards[s];
      const std::string& name = program.parameters[size_t(shard.parameter)].spec.name;
      const auto weights = state.weights.find(name);
      check_internal(weights != state.weights.end(), "a resumed run has the weights of all parameters");
      if (program.private_replicas || bucket.holders[s % bucket.holders.size()] == rank) {
        const at::Tensor flat = flat_shard(weights->second, shard);
        for (const ReplicaPiece& piece : pieces) {
          copy_overlap(flat, shard.offset, piece.range, piece.master);
          copy_overlap(flat, shard.offset, piece.range, piece.compute);
        }
      }
      const auto states = state.optimizer.find(name);
      for (size_t k = 0; states != state.optimizer.end() && k < states->second.size(); ++k) {
        const at::Tensor flat = flat_shard(states->second[k], shard);
        for (const ReplicaPiece& piece : pieces)
          if (!piece.state.empty()) copy_overlap(flat, shard.offset, piece.range, piece.state.at(k));
      }
    }
  }
}

}  // namespace trireme
