// Gradient buckets: PyTorch DDP's rule with a known result, and the buckets of plans.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "../base/expect_error.h"
#include "plan/named.h"
#include "program/compile.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

/// Bytes of each group, for parameters in reverse order.
std::vector<int64_t> ddp_buckets(const Model& model, int64_t cap) {
  std::vector<int64_t> bytes;
  for (const ParameterSpec& spec : model.parameters()) bytes.push_back(4 * element_count(spec.shape));
  std::reverse(bytes.begin(), bytes.end());
  std::vector<int64_t> groups;
  size_t next = 0;
  for (int count : group_sizes(bytes, cap, 1 << 20)) {
    groups.push_back(std::accumulate(bytes.begin() + std::ptrdiff_t(next), bytes.begin() + std::ptrdiff_t(next) + count,
                                     int64_t{0}));
    next += size_t(count);
  }
  EXPECT_EQ(next, bytes.size());
  return groups;
}

/// The bucket sizes that DistributedDataParallel makes of torchvision's ResNet-18 with 1000 classes.
TEST(GroupSizes, ResNet18AsDdp) {
  const Model model = make_model({"resnet18", {3, 32, 32}, 1000, {}});
  EXPECT_EQ(ddp_buckets(model, 25 << 20), (std::vector<int64_t>{2'052'000, 28'852'224, 15'853'824}));
  EXPECT_EQ(ddp_buckets(model, 35 << 20), (std::vector<int64_t>{2'052'000, 38'297'600, 6'408'448}));
}

TEST(GroupSizes, Edges) {
  EXPECT_EQ(group_sizes({}, 10, 1), std::vector<int>{});
  EXPECT_EQ(group_sizes({3}, 10, 5), std::vector<int>{1});                  // a group that is not full
  EXPECT_EQ(group_sizes({5, 10, 10}, 10, 5), (std::vector<int>{1, 1, 1}));  // closes when it reaches the cap
  EXPECT_EQ(group_sizes({4, 1, 9, 1, 2}, 10, 5), (std::vector<int>{2, 2, 1}));
  EXPECT_EQ(group_sizes({100, 1, 1}, 10, 5), (std::vector<int>{1, 2}));  // a parameter is never split
}

Program compiled(const Model& model, const std::string& name, int devices, CompileOptions options = {}) {
  return compile(model, named_plan(name, model, Cluster::uniform(devices), 16, {}), options);
}

int64_t elements_of(const Program& program, const Bucket& bucket) {
  int64_t sum = 0;
  for (const ParameterShard& shard : bucket.shards) sum += shard.size();
  return sum;
}

/// Expects that every element of every parameter lies in exactly one shard, and that shards do not overlap in their
/// bucket.
void expect_covers(const Model& model, const Program& program) {
  int64_t covered = 0;
  for (const Bucket& bucket : program.buckets) {
    covered += elements_of(program, bucket);
    int64_t end = 0;
    for (const ParameterShard& shard : bucket.shards) {
      EXPECT_EQ(shard.offset % kBucketAlignment, 0);
      EXPECT_GE(shard.offset, end);
      end = shard.offset + shard.size();
    }
    EXPECT_LE(end, bucket.elements);
    int64_t next = 0;
    for (int holder : bucket.holders) {
      EXPECT_EQ(bucket.slice_of(holder).begin, next);
      next = bucket.slice_of(holder).end;
    }
    EXPECT_EQ(next, bucket.elements);
    EXPECT_TRUE(bucket.slice_of(1000).empty());
  }
  EXPECT_EQ(covered, model.parameter_count());
}

TEST(Buckets, CoverAllParametersOnce) {
  for (const char* name : {"mlp", "tied-mlp", "skip"}) {
    const Model model = make_model({name, {6}, 4, {{"hidden", 8}}});
    for (const char* degrees : {"data=4", "tensor=4", "pipeline=4,micro_batches=1", "data=2,tensor=2"}) {
      SCOPED_TRACE(std::string(name) + " " + degrees);
      expect_covers(model, compiled(model, degrees, 4));
    }
  }
}

TEST(Buckets, HoldersAndContributors) {
  const Model model = make_model({"mlp", {6}, 4, {{"hidden", 8}}});
  Plan plan = named_plan("data=2,tensor=2", model, Cluster::uniform(4), 16, {});
  for (const auto& [name, split] : std::map<std::string, std::string>{
           {"fc1", "columns"}, {"relu1", "channels"}, {"fc2", "rows"}, {"relu2", "replicate"}, {"fc3", "replicate"}})
    plan.layers[size_t(model.find(name))].split = split;
  const Program program = compile(model, plan, {});
  for (const Bucket& bucket : program.buckets)
    for (const ParameterShard& shard : bucket.shards) {
      const std::string& name = program.parameters[size_t(shard.parameter)].spec.name;
      if (name == "fc1.weight" || name == "fc1.bias" || name == "fc2.weight") {
        // The worker with tensor index 0 has the first half.
        const bool first = shard.box[name == "fc2.weight" ? 1 : 0].begin == 0;
        EXPECT_EQ(bucket.holders, first ? (std::vector<int>{0, 2}) : (std::vector<int>{1, 3})) << name;
        EXPECT_EQ(bucket.contributors, bucket.holders) << name;
      } else {  // all workers of a tensor axis compute the same gradient; the first one contributes it
        EXPECT_EQ(bucket.holders, (std::vector<int>{0, 1, 2, 3})) << name;
        EXPECT_EQ(bucket.contributors, (std::vector<int>{0, 2})) << name;
      }
    }
}

TEST(Buckets, TiedWeightsAreHeldByBothStages) {
  const Model model = make_model({"tied-mlp", {6}, 4, {{"hidden", 8}}});
  Plan plan = named_plan("pipeline=2,micro_batches=2", model, Cluster::uniform(2), 16, {});
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].stage = id < model.find("again") ? 0 : 1;
  const Program program = compile(model, plan, {});
  for (const Bucket& bucket : program.buckets)
    for (const ParameterShard& shard : bucket.shards)
      if (program.parameters[size_t(shard.parameter)].spec.name == "shared.weight") {
        EXPECT_EQ(bucket.holders, (std::vector<int>{0, 1}));
        EXPECT_EQ(bucket.contributors, (std::vector<int>{0, 1}));
      }
}

TEST(Buckets, FullPrecisionApartUnderMixedPrecision) {
  const Model model = make_model({"cifar-resnet18", {3, 8, 8}, 4, {{"width", 4}}});
  for (bool mixed : {false, true}) {
    const Program program = compiled(model, "data", 2, {.mixed_precision = mixed});
    bool any = false;
    for (const Bucket& bucket : program.buckets) {
      any = any || bucket.full_precision;
      for (const ParameterShard& shard : bucket.shards)
        EXPECT_EQ(bucket.full_precision, mixed && program.parameters[size_t(shard.parameter)].spec.full_precision);
    }
    EXPECT_EQ(any, mixed);
  }
}

/// A ring through many workers waits for each of them in every bucket.
TEST(Buckets, OfManyHoldersHoldWholeBlocks) {
  const Model model = make_model({"mlp", {1024}, 4, {{"hidden", 1024}, {"depth", 24}}});  // 4 MiB per layer
  const auto buckets = [&](int holders) {
    const Plan plan = named_plan("data,sharding=zero3", model, Cluster::uniform(holders), 256, {});
    return compile(model, plan, {.checked = false}).buckets;
  };
  EXPECT_GT(buckets(8).size(), 4u);
  EXPECT_LE(buckets(128).size(), 2u);
}

/// Six holders in groups of three: each group has all elements, and the same slices.
TEST(Buckets, AreDividedInGroups) {
  const Model model = make_model({"mlp", {64}, 4, {{"hidden", 64}, {"depth", 4}}});
  const Program program = compiled(model, "data=6,sharding=zero1,sharding_group=3", 6);
  for (const Bucket& bucket : program.buckets) {
    ASSERT_EQ(bucket.holders.size(), 6u);
    EXPECT_EQ(bucket.slices(), 3);
    EXPECT_EQ(bucket.copies(), 2);
    EXPECT_EQ(bucket.runs(), (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}));
    EXPECT_EQ(bucket.run_of(4), (std::vector<int>{3, 4, 5}));
    EXPECT_EQ(bucket.copies_of(4), (std::vector<int>{1, 4}));
    int64_t next = 0;
    for (int holder = 0; holder < 3; ++holder) {
      const Range slice = bucket.slice_of(holder);
      EXPECT_EQ(slice.begin, next);
      EXPECT_EQ(slice, bucket.slice_of(holder + 3));
      next = slice.end;
    }
    EXPECT_EQ(next, bucket.elements);
  }
  // what fewer workers hold is divided over all of these
  for (const Bucket& bucket : compiled(model, "data=2,sharding=zero1,sharding_group=4", 2).buckets)
    EXPECT_EQ(bucket.copies(), 1);
}

TEST(Buckets, AreNotDividedInGroupsThatDoNotFit) {
  const Model model = make_model({"mlp", {64}, 4, {{"hidden", 64}, {"depth", 4}}});
  const auto refused = [&](const char* strategy, const std::vector<std::string>& words) {
    expect_error(Blame::user, words, [&] { compiled(model, strategy, 6); });
  };
  refused("data=6,sharding=zero1,sharding_group=4",
          {"sharding_group 4", "held by 6 workers", "groups of 4", "divisor"});
  refused("data=6,sharding_group=3", {"sharding_group 3", "nothing is divided", "zero1"});
  Plan alone = named_plan("data=6,sharding=zero3", model, Cluster::uniform(6), 48, {});
  alone.sharding_group = 1;
  expect_error(Blame::user, {"sharding_group 1", "at least 2"}, [&] { compile(model, alone, {}); });
}

/// Reduction begins during backward: the first buckets are announced before the last backward segment.
TEST(Buckets, AreReducedDuringBackward) {
  const Model model = make_model({"mlp", {64}, 4, {{"hidden", 64}, {"depth", 4}}});
  const Program program = compiled(model, "data", 2, {.bucket_bytes = 4 * 64 * 64, .first_bucket_bytes = 4 * 64});
  ASSERT_GT(program.buckets.size(), 3u);
  for (const auto& list : program.lists) {
    std::vector<int> announced;
    int after_last_backward = 0;
    for (const Instruction& i : list) {
      if (i.code == OpCode::backward) after_last_backward = 0;
      if (i.code != OpCode::reduce_gradients) continue;
      announced.push_back(i.index);
      ++after_last_backward;
    }
    EXPECT_EQ(announced.size(), program.buckets.size());
    EXPECT_TRUE(std::is_sorted(announced.begin(), announced.end()));  // the same order on all workers
    EXPECT_EQ(after_last_backward, 1);
  }
}

/// Where links overlap nothing, each stage would otherwise wait for the reductions of all stages behind it.
TEST(Buckets, OfAStageAreReducedAfterItHasSentGradients) {
  const Model model = make_model({"mlp", {64}, 4, {{"hidden", 64}, {"depth", 6}}});
  for (const char* name : {"data=2,pipeline=3,micro_batches=4,schedule=1f1b", "data=2,pipeline=3,micro_batches=4",
                           "data=2,pipeline=3,micro_batches=4,schedule=1f1b,sharding=zero1",
                           "data=2,pipeline=3,micro_batches=6,chunks=2,schedule=interleaved"}) {
    SCOPED_TRACE(name);
    const Plan plan = named_plan(name, model, Cluster::uniform(6), 24, {});
    const Program program = compile(
        model, plan,
        {.bucket_bytes = 16'384, .first_bucket_bytes = 256, .private_replicas = true, .overlap = Overlap::nothing});
    int behind = 0;
    for (const auto& list : program.lists) {
      // The first of a run of reductions follows a send of gradients, or no such send comes after it.
      for (size_t i = 1; i < list.size(); ++i) {
        const Instruction& before = list[i - 1];
        if (list[i].code != OpCode::reduce_gradients || before.code == OpCode::reduce_gradients) continue;
        const bool follows_send = before.code == OpCode::send && before.adjoint;
        const bool sends_none = std::none_of(list.begin() + long(i), list.end(), [](const Instruction& later) {
          return later.code == OpCode::send && later.adjoint;
        });
        EXPECT_TRUE(follows_send || sends_none) << program.describe(list[i], model);
        behind += int(follows_send);
      }
    }
    EXPECT_GT(behind, 0);
  }
}

}  // namespace
}  // namespace trireme
