#include "cost/memory.h"

#include <algorithm>
#include <map>

#include "cost/rank_memory.h"

namespace trireme {
namespace {

/// Groups ranks by what their memory depends on besides the program: the instruction list, the shares of micro-batches
/// and buckets, and the coordinates on tensor axes.
class Kinds {
 public:
  explicit Kinds(const Program& program, int64_t batch) : program_(program) {
    for (const Op& op : program.ops)
      if (std::find(meshes_.begin(), meshes_.end(), op.mesh) == meshes_.end()) meshes_.push_back(op.mesh);
    for (int k : {0, program.micro_batches - 1}) samples_.push_back(share_of(batch, program.micro_batches, k).size());
  }

  using Key = std::vector<int64_t>;
  Key of(int rank) const {
    Key key{program_.list_of_rank[size_t(rank)]};
    for (const Mesh& mesh : meshes_) {
      const int place = mesh.index_of(rank);
      key.push_back(place < 0 ? -1 : place % mesh.tensor);
      if (place < 0) continue;
      for (int64_t samples : samples_) key.push_back(share_of_data(mesh, samples, place / mesh.tensor));
    }
    int64_t drawn = 0;
    for (size_t b = 0; b < program_.buckets.size(); ++b) {
      const Bucket& bucket = program_.buckets[b];
      if (!std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank)) continue;
      const bool contributes = std::binary_search(bucket.contributors.begin(), bucket.contributors.end(), rank);
      key.insert(key.end(), {int64_t(b), bucket.slice_of(rank).size(), contributes});
      drawn = std::max(drawn, largest_drawn(program_, BucketId(b), rank));
    }
    key.push_back(drawn);
    return key;
  }

 private:
  static int64_t share_of_data(const Mesh& mesh, int64_t samples, int index) {
    return (mesh.shares.empty() ? share_of(samples, mesh.data, index) : share_of(samples, mesh.shares, index)).size();
  }

  const Program& program_;
  std::vector<Mesh> meshes_;
  std::vector<int64_t> samples_;  // of the largest and of the smallest micro-batch
};

}  // namespace

std::vector<MemoryUse> predict_memory(const Program& program, const Model& model, const LayerCosts& layers,
                                      const MemoryOptions& options, std::span<const int> ranks) {
  ProgramSizes all(program, model, layers, options);
  const Kinds kinds(program, options.batch);
  std::map<Kinds::Key, MemoryUse> known;
  std::vector<MemoryUse> uses;
  for (int rank : ranks) {
    const auto [it, fresh] = known.try_emplace(kinds.of(rank));
    if (fresh) it->second = RankMemory(all, rank).run();
    uses.push_back(it->second);
  }
  return uses;
}

int64_t changing_at_peak(const MemoryUse& use) {
  return use.at_peak[size_t(MemoryCategory::activations)] + use.at_peak[size_t(MemoryCategory::buffers)];
}

}  // namespace trireme
