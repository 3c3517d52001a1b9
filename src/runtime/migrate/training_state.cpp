#include "runtime/migrate/training_state.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {
namespace {

int64_t bytes_in(const TensorMap& tensors) {
  int64_t bytes = 0;
  for (const auto& entry : tensors) bytes += int64_t(entry.second.nbytes());
  return bytes;
}

}  // namespace

int64_t TrainingState::bytes() const {
  int64_t bytes =
      bytes_in(weights) + bytes_in(buffers) + bytes_in(averaged_buffers) + bytes_in(carried) + bytes_in(agreement);
  for (const auto& entry : optimizer)
    for (const at::Tensor& tensor : entry.second) bytes += int64_t(tensor.nbytes());
  return bytes;
}

void check_migrates(const Program& program) {
  if (program.compression.kind != Compression::Kind::powersgd) return;
  fail_run({"change of plan", "compression = powersgd",
            "its error feedback belongs to the workers, and those of another plan cannot take it over",
            "use compression = bf16 or none, or keep the plan"});
}

void give_state(const Program& program, int rank, const TrainingState& state, Replicas& replicas) {
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    if (!std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank)) continue;
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
