// Tables of which a step reads and changes only some rows: the same bits as updates of the whole table, and no other
// row is touched.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/replica_view.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr int64_t kSamples = 6, kPositions = 5, kVocabulary = 40;

Model bag_of_words() {
  return make_model({.name = "bag-of-words",
                     .sample_shape = {kPositions},
                     .classes = 3,
                     .options = {{"width", 7}},
                     .vocabulary = kVocabulary});
}
Model language_model(const std::string& name, std::map<std::string, double> options) {
  options["width"] = 8;
  return make_model({.name = name,
                     .sample_shape = {kPositions},
                     .classes = kVocabulary,
                     .options = std::move(options),
                     .task = LearningTask::language,
                     .target_shape = {kPositions}});
}

/// Random tokens below `below`, some of them several times, keyed by step.
Batch batch_of(const Model& model, int64_t step, int64_t below) {
  const bool predicts_tokens = model.node(1).sample_shape == Shape{kPositions};
  return {kSamples, [=](Range range) {
            at::Tensor tokens = at::empty({range.size(), kPositions}, at::kLong),
                       target = at::empty({range.size()}, at::kLong);
            const Philox draw(random_key(9, "tokens " + std::to_string(step)));
            for (int64_t i = 0; i < range.size(); ++i) {
              const int64_t sample = range.begin + i;
              target[i] = sample % 3;
              for (int64_t j = 0; j < kPositions; ++j)
                tokens[i][j] = int64_t(draw.uniform(uint64_t(sample * kPositions + j)) * double(below));
            }
            return std::vector<at::Tensor>{tokens, predicts_tokens ? tokens.remainder(kVocabulary) : target};
          }};
}

struct Trained {
  TensorMap weights;
  std::vector<RowTable> tables;  ///< of all workers
};

using Between = std::function<void(ParameterStore& store, const Program& program,
                                   int64_t step)>;  ///< on the first worker before a step

Trained run(const Model& model, const std::string& degrees, int devices, const OptimizerConfig& optimizer, bool whole,
            int64_t below = kVocabulary, const Between& between = {}) {
  const Plan plan = named_plan(degrees, model, Cluster::uniform(devices), kSamples, {});
  const Program program = compile(model, plan, {.keep_gradients = whole});
  LocalWorld world(devices);
  ParameterStore store(program, Precision::fp32);
  Trained result;
  ReplicaView view(program, model);
  run_worker_threads(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, {.seed = 3, .optimizer = optimizer});
    worker.show(view);
    worker.barrier();
    if (rank == 0) result.tables = view.state().tables;
    for (int64_t step = 0; step < 4; ++step) {
      worker.barrier();
      if (rank == 0 && between) between(store, program, step);
      worker.barrier();
      worker.train({.step = step, .batch = batch_of(model, step, below), .learning_rate = 0.3});
      worker.settle();
    }
    worker.drain();
    worker.settle();
    worker.barrier();
    if (rank == 0)
      for (size_t p = 0; p < program.parameters.size(); ++p)
        result.weights[program.parameters[p].spec.name] = store.full_parameter(int(p)).clone();
    worker.barrier();
  });
  return result;
}

TEST(RowSet, KeepsDistinctRowsOfTheTable) {
  RowSet rows(6);
  rows.add(at::tensor(std::vector<int64_t>{4, 1, 4, -1, 6}).to(at::kInt));
  rows.add(at::tensor(std::vector<int64_t>{0, 1, 4, 4}).view({2, 2}));
  EXPECT_EQ(rows.rows(), (std::vector<int64_t>{4, 1, 0}));
  rows.clear();
  EXPECT_TRUE(rows.rows().empty());
  rows.add(at::tensor(std::vector<int64_t>{1}));
  EXPECT_EQ(rows.rows(), std::vector<int64_t>{1});
}

TEST(TrackedRows, SameBitsAsUpdatesOfTheWhole) {
  for (const Model& model :
       {bag_of_words(), language_model("lstm-lm", {}), language_model("transformer-lm", {{"tied", 0}, {"heads", 2}})})
    for (const auto& [degrees, devices] : {std::pair<std::string, int>{"data=1", 1},
                                           {"data=1,micro_batches=3", 1},
                                           {"pipeline=2,micro_batches=2,schedule=1f1b", 2}}) {
      SCOPED_TRACE(model.name() + " " + degrees);
      const Trained sparse = run(model, degrees, devices, {}, false), dense = run(model, degrees, devices, {}, true);
      EXPECT_EQ(sparse.tables.size(), 1u);
      EXPECT_TRUE(dense.tables.empty());
      for (const auto& [name, weights] : dense.weights)
        EXPECT_TRUE(at::equal(weights, sparse.weights.at(name))) << name;
    }
}

TEST(TrackedRows, RowsThatNoBatchNamesAreNotRead) {
  constexpr int64_t kBelow = 10, kWidth = 7;
  const Model model = bag_of_words();
  const Trained plain = run(model, "data=1", 1, {}, false, kBelow);
  int64_t checked = 0;
  const Trained marked =
      run(model, "data=1", 1, {}, false, kBelow, [&](ParameterStore& store, const Program& program, int64_t step) {
        for (size_t b = 0; b < program.buckets.size(); ++b)
          for (const ParameterShard& shard : program.buckets[b].shards) {
            if (program.parameters[size_t(shard.parameter)].spec.name != "embedding.weight") continue;
            at::Tensor gradient = store.bucket(BucketId(b))
                                      .gradients[0]
                                      .narrow(0, shard.offset, shard.size())
                                      .view({kVocabulary, kWidth});
            if (step > 0) {
              EXPECT_EQ(gradient.narrow(0, 0, kBelow).abs().max().item<float>(), 0) << "what an update has used";
              EXPECT_EQ(gradient.narrow(0, kBelow, kVocabulary - kBelow).min().item<float>(), 5);
              ++checked;
            }
            gradient.narrow(0, kBelow, kVocabulary - kBelow).fill_(5);
          }
      });
  EXPECT_EQ(checked, 3);
  for (const auto& [name, weights] : plain.weights) EXPECT_TRUE(at::equal(weights, marked.weights.at(name))) << name;
}

TEST(TrackedRows, WhereEveryRowMayChangeNoneAre) {
  OptimizerConfig momentum, decay, adam, ema;
  momentum.momentum = 0.9;
  decay.weight_decay = 0.01;
  adam.kind = &kAdam;
  ema.ema = 0.9;
  for (const OptimizerConfig& optimizer : {momentum, decay, adam, ema})
    EXPECT_TRUE(run(bag_of_words(), "data=1", 1, optimizer, false).tables.empty());
  EXPECT_TRUE(run(bag_of_words(), "data=2", 2, {}, false).tables.empty());
  EXPECT_TRUE(run(bag_of_words(), "tensor=2", 2, {}, false).tables.empty());
  EXPECT_TRUE(
      run(language_model("transformer-lm", {{"tied", 1}, {"heads", 2}}), "data=1", 1, {}, false).tables.empty());
  const Trained tracked = run(bag_of_words(), "data=1", 1, {}, false);
  ASSERT_EQ(tracked.tables.size(), 1u);
  EXPECT_EQ(tracked.tables[0].rows, kVocabulary);
  EXPECT_EQ(tracked.tables[0].width, 7);
}

}  // namespace
}  // namespace trireme
