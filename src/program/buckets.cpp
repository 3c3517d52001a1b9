#include <algorithm>
#include <map>
#include <tuple>

#include "program/graph.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// A parameter shard, while its holders are collected from all ops that use it.
struct Draft {
  ParameterShard shard;
  std::vector<int> holders, contributors;
  OpId first_use = 0;  // the op whose backward completes the gradient
  int position = 0;    // within that op
  int versions = 1;
};

void add_sorted(std::vector<int>& set, const std::vector<int>& more) {
  set.insert(set.end(), more.begin(), more.end());
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
}

/// Each distinct shard once, indexed by parameter and box.
class Drafts {
 public:
  Draft& of(const ParameterShard& shard, OpId op, int position) {
    std::vector<int64_t> key{shard.parameter};
    for (const Range& range : shard.box) key.insert(key.end(), {range.begin, range.end});
    auto [it, fresh] = index_.emplace(std::move(key), all.size());
    if (fresh) all.push_back({shard, {}, {}, op, position});
    return all[it->second];
  }
  std::vector<Draft> all;

 private:
  std::map<std::vector<int64_t>, size_t> index_;
};

void add_use(Drafts& drafts, const Program& program, OpId id, int position) {
  const Op& op = program.ops[size_t(id)];
  const int parameter = op.parameters[size_t(position)];
  const ProgramParameter& info = program.parameters[size_t(parameter)];
  const Placement& placement = op.option.parameters[size_t(position)];
  // A Replicate gradient is the same on all workers of the tensor axis; only the first contributes.
  const bool all_contribute = !op.option.parameter_gradients[size_t(position)].is_replicate();
  const int shards = placement.is_shard() ? op.mesh.tensor : 1;
  for (int t = 0; t < shards; ++t) {
    Box box = whole(info.spec.shape);
    if (shards > 1) box[size_t(placement.dim)] = share_of(info.spec.shape[size_t(placement.dim)], shards, t);
    std::vector<int> holders, contributors;
    for (int w = 0; w < op.mesh.size(); ++w) {
      const int tensor_index = w % op.mesh.tensor;
      if (shards > 1 && tensor_index != t) continue;
      holders.push_back(op.mesh.workers[size_t(w)]);
      if (info.trainable && (all_contribute || tensor_index == 0)) contributors.push_back(op.mesh.workers[size_t(w)]);
    }
    Draft& draft = drafts.of({parameter, box, 0}, id, position);
    add_sorted(draft.holders, holders);
    add_sorted(draft.contributors, contributors);
    draft.versions = std::max(draft.versions, op.delay + 1);
  }
}

/// With zero2 and zero3, buckets of many holders are larger, up to a block: a ring through n workers waits n - 1 times
/// per bucket. Megatron-Core's buckets grow with the workers for this reason, too. With fewer holders than kManyHolders
/// the usual bucket is larger than this.
constexpr int64_t kLeastBytesPerHolder = 1 << 20, kManyHolders = 32;

/// What the shards of one bucket have in common: holders, contributors, dtype, versions and, if blocks are gathered one
/// by one, the block.
using Key = std::tuple<std::vector<int>, std::vector<int>, bool, int, std::string>;

}  // namespace

int64_t ParameterShard::size() const { return element_count(shape_of(box)); }

Range Bucket::slice_of(int holder) const {
  auto it = std::find(holders.begin(), holders.end(), holder);
  if (it == holders.end()) return {};
  Range units = share_of(elements / kBucketAlignment, slices(), int(it - holders.begin()) % slices());
  return {units.begin * kBucketAlignment, units.end * kBucketAlignment};
}

std::vector<int> Bucket::run_of(int holder) const {
  const auto place = std::find(holders.begin(), holders.end(), holder) - holders.begin();
  const auto first = holders.begin() + place / slices() * slices();
  return {first, first + slices()};
}

std::vector<int> Bucket::copies_of(int holder) const {
  const auto place = size_t(std::find(holders.begin(), holders.end(), holder) - holders.begin());
  std::vector<int> same;
  for (size_t h = place % size_t(slices()); h < holders.size(); h += size_t(slices())) same.push_back(holders[h]);
  return same;
}

std::vector<std::vector<int>> Bucket::runs() const {
  std::vector<std::vector<int>> all;
  for (size_t h = 0; h < holders.size(); h += size_t(slices())) all.push_back(run_of(holders[h]));
  return all;
}

std::vector<Range> Bucket::padding() const {
  std::vector<Range> taken;
  taken.reserve(shards.size() + 1);
  for (const ParameterShard& shard : shards) taken.push_back({shard.offset, shard.offset + shard.size()});
  std::sort(taken.begin(), taken.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  taken.push_back({elements, elements});
  std::vector<Range> free;
  int64_t end = 0;
  for (const Range& range : taken) {
    if (end < range.begin) free.push_back({end, range.begin});
    end = range.end;
  }
  return free;
}

std::vector<int> group_sizes(const std::vector<int64_t>& bytes, int64_t cap, int64_t first_cap) {
  std::vector<int> groups;
  int64_t size = 0;
  int items = 0;
  for (int64_t item : bytes) {
    size += item;
    ++items;
    if (size < (groups.empty() ? first_cap : cap)) continue;
    groups.push_back(items);
    size = items = 0;
  }
  if (items > 0) groups.push_back(items);
  return groups;
}

void build_buckets(const Model& model, const CompileOptions& options, Program& program) {
  Drafts drafts;
  for (OpId id = 0; id < OpId(program.ops.size()); ++id)
    for (int position = 0; position < int(program.ops[size_t(id)].parameters.size()); ++position)
      add_use(drafts, program, id, position);
  std::stable_sort(drafts.all.begin(), drafts.all.end(), [](const Draft& a, const Draft& b) {
    return std::tie(a.first_use, a.position) > std::tie(b.first_use, b.position);
  });

  const bool by_block = program.optimizer_sharding >= OptimizerSharding::zero2;  // gathered tensors stay small
  std::vector<const Key*> keys;  // in the order in which gradients become complete
  std::map<Key, std::vector<const Draft*>> members;
  for (const Draft& draft : drafts.all) {
    bool full = options.mixed_precision && program.parameters[size_t(draft.shard.parameter)].spec.full_precision;
    // Values that no step changes (frozen ones) have one version, which all batches in flight use.
    const int versions = draft.contributors.empty() ? 1 : draft.versions;
    Key key{draft.holders, draft.contributors, full, versions,
            by_block ? block_of(model.node(program.ops[size_t(draft.first_use)].node).name) : ""};
    auto [it, fresh] = members.try_emplace(std::move(key));
    if (fresh) keys.push_back(&it->first);
    it->second.push_back(&draft);
  }
  for (const Key* key : keys) {
    const auto& group = members[*key];
    std::vector<int64_t> bytes;
    for (const Draft* draft : group) bytes.push_back(draft->shard.size() * int64_t(sizeof(float)));
    size_t next = 0;
    auto holders = int64_t(std::get<0>(*key).size());
    if (program.sharding_group > 0) holders = std::min<int64_t>(holders, program.sharding_group);
    const int64_t least = by_block && holders >= kManyHolders ? kLeastBytesPerHolder * holders : 0;
    for (int count :
         group_sizes(bytes, std::max(options.bucket_bytes, least), std::max(options.first_bucket_bytes, least))) {
      Bucket bucket;
      std::tie(bucket.holders, bucket.contributors, bucket.full_precision, bucket.versions, std::ignore) = *key;
      for (int i = 0; i < count; ++i) {
        ParameterShard shard = group[next++]->shard;
        shard.offset = bucket.elements;
        bucket.elements += (shard.size() + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
        bucket.shards.push_back(std::move(shard));
      }
      if (int(bucket.holders.size()) > program.sharding_group) bucket.dividers = program.sharding_group;
      program.buckets.push_back(std::move(bucket));
    }
  }
}

}  // namespace trireme
