#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "program/graph.h"

namespace trireme {
namespace {

/// A parameter shard while holders are being gathered over all the ops that use it.
struct Draft {
  ParameterShard shard;
  std::vector<int> holders, contributors;
  OpId first_use = 0;   // the op whose backward completes the gradient
  int position = 0;     // within that op
};

void add_sorted(std::vector<int>& set, const std::vector<int>& more) {
  set.insert(set.end(), more.begin(), more.end());
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
}

/// Workers whose gradient of this shard counts: with a Replicate gradient every worker of the tensor axis computed the same
/// one, so only the first does.
std::vector<int> contributors_of(const Op& op, const Placement& gradient, const std::vector<int>& holders) {
  if (!gradient.is_replicate()) return holders;
  std::vector<int> first;
  for (int worker : holders)
    if (op.mesh.tensor_index(worker) == 0) first.push_back(worker);
  return first;
}

void add_use(std::vector<Draft>& drafts, const Program& program, OpId id, int position) {
  const Op& op = program.ops[size_t(id)];
  const int parameter = op.parameters[size_t(position)];
  const Shape& shape = program.parameters[size_t(parameter)].spec.shape;
  const Placement& placement = op.option.parameters[size_t(position)];
  const Placement& gradient = op.option.parameter_gradients[size_t(position)];
  Layout layout{op.mesh, Placement::replicate(), placement};
  const int shards = placement.is_shard() ? op.mesh.tensor : 1;
  for (int t = 0; t < shards; ++t) {
    const int sample_worker = op.mesh.workers[size_t(t)];
    Box box = layout.box_of(sample_worker, shape);
    std::vector<int> holders = shards > 1 ? op.mesh.data_group(sample_worker) : op.mesh.workers;
    auto same = [&](const Draft& d) { return d.shard.parameter == parameter && d.shard.box == box; };
    auto it = std::find_if(drafts.begin(), drafts.end(), same);
    if (it == drafts.end()) it = drafts.insert(drafts.end(), {{parameter, box, 0}, {}, {}, id, position});
    add_sorted(it->holders, holders);
    add_sorted(it->contributors, contributors_of(op, gradient, holders));
  }
}

}  // namespace

int64_t ParameterShard::size() const { return element_count(shape_of(box)); }

Range Bucket::slice_of(int holder) const {
  auto it = std::find(holders.begin(), holders.end(), holder);
  if (it == holders.end()) return {};
  Range units = share_of(elements / kBucketAlignment, int(holders.size()), int(it - holders.begin()));
  return {units.begin * kBucketAlignment, units.end * kBucketAlignment};
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
  std::vector<Draft> drafts;
  for (OpId id = 0; id < OpId(program.ops.size()); ++id)
    for (int position = 0; position < int(program.ops[size_t(id)].parameters.size()); ++position)
      add_use(drafts, program, id, position);
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    return std::tie(a.first_use, a.position) > std::tie(b.first_use, b.position);
  });

  using Key = std::tuple<std::vector<int>, std::vector<int>, bool>;
  std::vector<Key> keys;  // in order of readiness
  std::map<Key, std::vector<const Draft*>> members;
  for (const Draft& draft : drafts) {
    bool full = options.mixed_precision && program.parameters[size_t(draft.shard.parameter)].spec.full_precision;
    Key key{draft.holders, draft.contributors, full};
    if (!members.count(key)) keys.push_back(key);
    members[key].push_back(&draft);
  }
  for (const Key& key : keys) {
    std::vector<int64_t> bytes;
    for (const Draft* draft : members[key]) bytes.push_back(draft->shard.size() * int64_t(sizeof(float)));
    size_t next = 0;
    for (int count : group_sizes(bytes, options.bucket_bytes, options.first_bucket_bytes)) {
      Bucket bucket;
      std::tie(bucket.holders, bucket.contributors, bucket.full_precision) = key;
      for (int i = 0; i < count; ++i) {
        ParameterShard shard = members[key][next++]->shard;
        shard.offset = bucket.elements;
        bucket.elements += (shard.size() + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
        bucket.shards.push_back(std::move(shard));
      }
      program.buckets.push_back(std::move(bucket));
    }
  }
}

}  // namespace trireme
