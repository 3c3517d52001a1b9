// Schedules, optimizer sharding, recompute, unequal shares. Schedules with flush give the curve of one device; those
// without flush give the curve of a serial loop with old weights.
#include "../support/set_parameter.h"
#include "base/memory.h"
#include "equivalence.h"
#include "program/compile.h"
#include "runtime/worker.h"
#include "runtime/worker_threads.h"
#include "trireme/schedule.h"

namespace trireme::test_support {
namespace {

/// Tries each `variant` after each of `degrees`, with one recipe after the other.
void try_all(const std::vector<std::string>& models, const std::vector<std::string>& degrees,
             const std::vector<std::string>& variants) {
  size_t turn = 0;
  for (const std::string& name : models) {
    const Model model = small_model(name);
    for (const std::string& d : degrees)
      for (const std::string& v : variants)
        expect_equivalent(model, plan_of(d + "," + v, model), recipes()[turn++ % recipes().size()], {});
  }
}

const std::vector<std::string> kDense{"mlp", "skip", "dropout-mlp", "tied-mlp"};

TEST(FlushSchedules, OneForwardOneBackward) {
  try_all(kDense, {"pipeline=2", "pipeline=3", "pipeline=4", "data=2,pipeline=2", "tensor=2,pipeline=2"},
          {"schedule=1f1b,micro_batches=1", "schedule=1f1b,micro_batches=4", "schedule=1f1b,micro_batches=7"});
  try_all({"convnet", "resnet-bn"}, {"pipeline=3", "data=2,pipeline=2"}, {"schedule=1f1b,micro_batches=5"});
}

TEST(FlushSchedules, GradientAccumulation) {
  try_all(kDense, {"data=1", "data=3", "data=2,tensor=2"}, {"schedule=1f1b,micro_batches=5"});
}

TEST(FlushSchedules, Interleaved) {
  try_all({"skip", "convnet", "resnet"}, {"pipeline=2", "data=2,pipeline=2"},
          {"schedule=interleaved,chunks=2,micro_batches=2", "schedule=interleaved,chunks=2,micro_batches=6"});
  try_all({"convnet", "resnet-bn"}, {"pipeline=2", "pipeline=3", "tensor=2,pipeline=2"},
          {"schedule=interleaved,chunks=3,micro_batches=6"});
}

TEST(FlushSchedules, ZeroBubble) {
  try_all(kDense, {"pipeline=2", "pipeline=3", "pipeline=4", "data=2,pipeline=2", "tensor=2,pipeline=2"},
          {"schedule=zero-bubble,micro_batches=2", "schedule=zero-bubble,micro_batches=6"});
  try_all({"convnet", "resnet-bn"}, {"pipeline=3", "data=2,pipeline=2"}, {"schedule=zero-bubble,micro_batches=5"});
}

TEST(FlushSchedules, ZeroBubbleInMoreMemory) {
  const std::vector<std::string> schedules{"schedule=zero-bubble-h2,micro_batches=6",
                                           "schedule=zero-bubble-2p,micro_batches=6"};
  try_all(kDense, {"pipeline=2", "pipeline=3", "data=2,pipeline=2", "tensor=2,pipeline=2"}, schedules);
  try_all({"convnet", "resnet-bn"}, {"pipeline=3"}, schedules);
}

TEST(FlushSchedules, ZeroBubbleThereAndBack) {
  const std::vector<std::string> schedules{"schedule=zero-bubble-v,micro_batches=1",
                                           "schedule=zero-bubble-v,micro_batches=5",
                                           "schedule=zero-bubble-v,micro_batches=6,recompute=all"};
  try_all({"skip", "tied-mlp", "convnet", "resnet"}, {"pipeline=2", "data=2,pipeline=2"}, schedules);
  try_all({"convnet", "resnet-bn"}, {"pipeline=3", "tensor=2,pipeline=2"}, schedules);
}

TEST(OptimizerSharding, AllLevels) {
  const std::vector<std::string> levels{"sharding=zero1", "sharding=zero2", "sharding=zero3"};
  try_all(kDense,
          {"data=2", "data=3", "data=2,tensor=2", "data=2,pipeline=2,micro_batches=3,schedule=1f1b",
           "data=2,micro_batches=3"},
          levels);
  try_all({"convnet", "resnet-bn"}, {"data=3", "data=2,pipeline=2,micro_batches=2"}, levels);
}

TEST(OptimizerSharding, InGroupsOfWorkers) {
  const std::vector<std::string> levels{"sharding=zero1,sharding_group=2", "sharding=zero2,sharding_group=2",
                                        "sharding=zero3,sharding_group=2"};
  try_all(kDense, {"data=4", "data=4,micro_batches=3", "data=4,pipeline=2,micro_batches=3,schedule=1f1b"}, levels);
  try_all({"mlp", "tied-mlp"}, {"data=4,tensor=2", "data=6"}, levels);
  try_all({"convnet", "resnet-bn"}, {"data=4"}, levels);
}

TEST(PrivateReplicas, GiveTheCurveOfSharedOnes) {
  for (const char* name : {"mlp", "skip", "dropout-mlp", "tied-mlp", "convnet"})
    for (const char* degrees : {"data=3", "tensor=2", "data=2,tensor=2", "data=2,pipeline=2,micro_batches=3",
                                "tensor=2,pipeline=2,micro_batches=2"}) {
      SCOPED_TRACE(std::string(name) + ", " + degrees);
      const Model model = small_model(name);
      LockstepOptions options{.steps = 3,
                              .precision = Precision::fp64,
                              .worker = {.seed = 3, .optimizer = recipes()[1].optimizer},
                              .clip_norm = 0.3};
      const auto batches = random_batches(model, ragged_batches());
      const auto expected = run_lockstep(model, single_plan(model), batches, options);
      options.private_replicas = true;
      expect_same(run_lockstep(model, plan_of(degrees, model), batches, options), expected, 1e-10);
    }
}

TEST(Recompute, GivesTheSameCurve) {
  try_all(kDense,
          {"data=1", "data=2", "tensor=2", "pipeline=2,micro_batches=4", "pipeline=3,micro_batches=4,schedule=1f1b",
           "data=2,pipeline=2,micro_batches=3,schedule=zero-bubble", "data=2,micro_batches=2,sharding=zero3"},
          {"recompute=all", "recompute=except_last"});
  try_all({"convnet", "resnet-bn"}, {"data=2", "pipeline=2,micro_batches=4"},
          {"recompute=all", "recompute=except_last"});
  try_all(kDense, {"tensor=2", "data=2,tensor=2", "data=2,tensor=2,speeds=2:2:1:1"},
          {"recompute=all,recompute_communication=1"});
}

TEST(UnequalSpeeds, GiveTheSameCurve) {
  try_all(kDense, {"data=2"}, {"speeds=2:1", "speeds=5:1"});
  try_all(kDense, {"data=2,tensor=2"}, {"speeds=3:3:1:1"});
  try_all({"convnet", "resnet-bn"}, {"data=3"}, {"speeds=4:2:1", "speeds=1:2:3,sharding=zero2"});
}

/// PipeDream's 15-1: fifteen workers share the batch of the first stage, one worker has the other stage.
TEST(UnequalStages, FifteenToOne) {
  const Model model = small_model("convnet");
  for (const char* schedule : {"gpipe", "1f1b"}) {
    Plan plan = plan_of("pipeline=2,micro_batches=2", model);
    plan.name = "15-1";
    plan.schedule = schedule;
    plan.devices = 16;
    plan.stages = {{}, {15}};
    for (int rank = 0; rank < 15; ++rank) plan.stages[0].push_back(rank);
    for (LayerPlan& layer : plan.layers) layer.data = layer.stage == 0 ? 15 : 1;
    const Comparison c{.batches = {40, 31}};
    validate(plan, model, 40, "test");
    expect_equivalent(model, plan, recipes()[1], c);
  }
}

/// Gradient of a batch at given weights, from one device with a learning rate of zero.
class SerialGradient {
 public:
  SerialGradient(const Model& model, std::function<Batch(int64_t)> batches)
      : model_(model),
        program_(compile(model, single_plan(model), {.keep_gradients = true})),
        batches_(std::move(batches)) {}

  struct Result {
    double loss = 0;
    std::vector<at::Tensor> gradients;
  };
  Result at(const std::vector<at::Tensor>& weights, int64_t step) {
    Result result;
    LocalWorld world(1);
    ParameterStore store(program_, Precision::fp64);
    run_worker_threads(world, [&](int rank) {
      Worker worker(rank, model_, &program_, nullptr, store, world, {.seed = 3});
      for (int p = 0; p < int(weights.size()); ++p) set_parameter(store, program_, p, weights[size_t(p)]);
      const Batch batch = batches_(step);
      result.loss = worker.train({.step = step, .batch = batch, .learning_rate = 0}).loss_sum / double(batch.samples);
      for (int p = 0; p < int(weights.size()); ++p) result.gradients.push_back(store.full_gradient(p).clone());
    });
    return result;
  }
  std::vector<at::Tensor> initial() {
    std::vector<at::Tensor> weights;
    LocalWorld world(1);
    ParameterStore store(program_, Precision::fp64);
    run_worker_threads(world, [&](int rank) {
      Worker worker(rank, model_, &program_, nullptr, store, world, {.seed = 3});
      for (int p = 0; p < int(program_.parameters.size()); ++p) weights.push_back(store.full_parameter(p).clone());
    });
    return weights;
  }
  const Program& program() const { return program_; }

 private:
  const Model& model_;
  Program program_;
  std::function<Batch(int64_t)> batches_;
};

/// w(t+1) = w(t) - rate * g(w of `delay` steps ago), with momentum; `delays` by parameter (Narayanan et al. 2019 and
/// 2021).
std::vector<Snapshot> serial_with_delay(const Model& model, const std::vector<int>& delays, int64_t steps, double rate,
                                        double momentum, const std::function<Batch(int64_t)>& batches,
                                        int64_t drain_every) {
  SerialGradient serial(model, batches);
  std::vector<std::vector<at::Tensor>> versions{serial.initial()};
  std::vector<at::Tensor> velocity;
  for (const at::Tensor& w : versions[0]) velocity.push_back(at::zeros_like(w));
  std::vector<Snapshot> result(static_cast<size_t>(steps));
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<at::Tensor> used, next;
    const int64_t empty =
        drain_every > 0 ? t / drain_every * drain_every : 0;  // the pipeline was last empty before this batch
    for (size_t p = 0; p < delays.size(); ++p) used.push_back(versions[size_t(std::max(empty, t - delays[p]))][p]);
    auto [loss, gradients] = serial.at(used, t);
    for (size_t p = 0; p < delays.size(); ++p) {
      velocity[p] = velocity[p] * momentum + gradients[p];
      next.push_back(versions.back()[p] - rate * velocity[p]);
    }
    versions.push_back(next);
    result[size_t(t)].loss = loss;
  }
  for (const ProgramParameter& p : serial.program().parameters) result.back().names.push_back(p.spec.name);
  result.back().parameters = versions.back();
  return result;
}

/// Runs `plan` and the serial loop. Compares the weights when the pipeline is empty, and the losses at every step.
void expect_delayed(const Model& model, const Plan& plan, bool private_replicas, bool vertical = false,
                    int64_t drain_every = 0) {
  SCOPED_TRACE(model.name() + ", " + plan.name);
  constexpr int64_t kSteps = 9;
  const auto batches = random_batches(model, {13, 7, 16});
  const int depth = plan.positions();
  std::map<std::string, int> delay;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    for (const ParameterSpec& spec : model.node(id).layer->parameters())
      delay[spec.name] = plan.schedule == "2bw" ? 1 : vertical ? depth - 1 : depth - 1 - plan.layers[size_t(id)].stage;
  std::vector<int> delays;
  const Program single = compile(model, single_plan(model), {});
  for (const ProgramParameter& p : single.parameters) delays.push_back(delay.at(p.spec.name));

  OptimizerConfig optimizer;
  optimizer.momentum = 0.9;
  LockstepOptions options{.steps = kSteps,
                          .precision = Precision::fp64,
                          .worker = {.seed = 3, .optimizer = optimizer},
                          .learning_rate = 0.05};
  options.private_replicas = private_replicas;
  options.drain_every = drain_every;
  auto actual = run_lockstep(model, plan, batches, options);
  const auto expected = serial_with_delay(model, delays, kSteps, 0.05, 0.9, batches, drain_every);
  ASSERT_EQ(actual.back().names, expected.back().names);
  for (size_t p = 0; p < delays.size(); ++p)
    EXPECT_LE(relative_difference(actual.back().parameters[p], expected.back().parameters[p]), 1e-10)
        << expected.back().names[p];
  for (size_t s = 0; s < expected.size(); ++s)
    EXPECT_NEAR(actual[s].loss, expected[s].loss, 1e-10 * expected[s].loss) << s;
}

TEST(NoFlush, PipedreamIsSerialWithDelayedWeights) {
  for (const char* name : {"mlp", "skip", "dropout-mlp", "convnet"})
    for (const char* degrees :
         {"pipeline=1", "pipeline=2", "pipeline=3", "pipeline=4", "data=2,pipeline=2", "data=2,tensor=2,pipeline=2"})
      for (bool private_replicas : {false, true}) {
        const Model model = small_model(name);
        expect_delayed(model, plan_of(std::string(degrees) + ",schedule=pipedream,micro_batches=1", model),
                       private_replicas);
      }
}

TEST(NoFlush, VerticalSync) {
  for (const char* name : {"mlp", "skip", "convnet"})
    for (const char* degrees : {"pipeline=2", "pipeline=4", "data=2,pipeline=3"}) {
      const Model model = small_model(name);
      expect_delayed(model,
                     plan_of(std::string(degrees) + ",schedule=pipedream,micro_batches=1,vertical_sync=1", model),
                     false, true);
    }
}

TEST(NoFlush, TwoBufferedWeightsAreSerialWithDelayOne) {
  for (const char* name : {"mlp", "skip", "dropout-mlp", "convnet"})
    for (const char* degrees :
         {"pipeline=1,micro_batches=3", "pipeline=2,micro_batches=2", "pipeline=2,micro_batches=5",
          "pipeline=3,micro_batches=4", "pipeline=4,micro_batches=4", "data=2,pipeline=2,micro_batches=3"})
      for (bool private_replicas : {false, true}) {
        const Model model = small_model(name);
        expect_delayed(model, plan_of(std::string(degrees) + ",schedule=2bw", model), private_replicas);
      }
}

/// An evaluation empties the pipeline, so the next batches begin with the newest weights.
TEST(NoFlush, RunsEmptyInBetween) {
  for (const char* text :
       {"pipeline=3,schedule=pipedream,micro_batches=1", "pipeline=2,schedule=2bw,micro_batches=3",
        "pipeline=1,schedule=2bw,micro_batches=2", "data=2,pipeline=2,schedule=pipedream,micro_batches=1"})
    for (int64_t every : {1, 2, 4})
      for (bool private_replicas : {false, true}) {
        const Model model = small_model("skip");
        expect_delayed(model, plan_of(text, model), private_replicas, false, every);
      }
}

TEST(NoFlush, KeepAsManyVersionsAsTheirDelayNeeds) {
  const Model model = small_model("mlp");
  auto versions = [&](const std::string& text) {
    const Plan plan = plan_of(text, model);
    const Program program = compile(model, plan, {});
    std::map<int, int> of_stage;
    for (const Bucket& bucket : program.buckets) of_stage[bucket.holders.front()] = bucket.versions;
    return of_stage;
  };
  EXPECT_EQ(versions("pipeline=3,schedule=pipedream,micro_batches=1"), (std::map<int, int>{{0, 3}, {1, 2}, {2, 1}}));
  EXPECT_EQ(versions("pipeline=3,schedule=pipedream,micro_batches=1,vertical_sync=1"),
            (std::map<int, int>{{0, 3}, {1, 3}, {2, 3}}));
  EXPECT_EQ(versions("pipeline=3,schedule=2bw,micro_batches=3"), (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(versions("pipeline=3,schedule=1f1b,micro_batches=3"), (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
}

/// Frozen parameters keep their values and get no gradient, under all plans.
TEST(Frozen, StayAsTheyAre) {
  for (const char* degrees :
       {"data=1", "data=3", "tensor=2", "pipeline=2,micro_batches=3", "data=2,sharding=zero1", "data=2,sharding=zero3",
        "pipeline=2,schedule=zero-bubble,micro_batches=3", "data=2,recompute=all"})
    for (const auto& frozen : {std::vector<std::string>{"fc1.*"}, {"fc2.weight"}, {"fc1.weight", "fc3.*"}}) {
      SCOPED_TRACE(degrees);
      const Model model = small_model("mlp");
      LockstepOptions options{.steps = 3,
                              .precision = Precision::fp64,
                              .worker = {.seed = 3, .optimizer = recipes()[1].optimizer},
                              .clip_norm = 0.3,
                              .frozen = frozen};
      const auto batches = random_batches(model, ragged_batches());
      const auto expected = run_lockstep(model, single_plan(model), batches, options);
      const auto actual = run_lockstep(model, plan_of(degrees, model), batches, options);
      expect_same(actual, expected, 1e-10);
      options.frozen.clear();
      const auto free = run_lockstep(model, single_plan(model), batches, options);
      for (size_t p = 0; p < expected[0].names.size(); ++p) {
        const std::string& name = expected[0].names[p];
        const bool is_frozen = std::any_of(frozen.begin(), frozen.end(), [&](const std::string& f) {
          return f.ends_with('*') ? name.starts_with(f.substr(0, f.size() - 1)) : f == name;
        });
        EXPECT_EQ(is_frozen, at::equal(expected[0].parameters[p], expected[2].parameters[p])) << name;
        EXPECT_EQ(is_frozen, !expected[0].gradients[p].defined()) << name;
        EXPECT_FALSE(at::equal(free[0].parameters[p], free[2].parameters[p])) << name;
      }
    }
}

/// With a learning rate of zero all versions of the weights are equal, so older ones give the loss of one device.
TEST(Frozen, AreTheSameInAllVersionsOfTheWeights) {
  const Model model = small_model("mlp");
  const auto batches = random_batches(model, ragged_batches());
  LockstepOptions options{.steps = 6,
                          .precision = Precision::fp64,
                          .worker = {.seed = 3},
                          .learning_rate = 0,
                          .frozen = {"fc1.*", "fc2.weight"}};
  const auto expected = run_lockstep(model, single_plan(model), batches, options);
  for (const char* degrees :
       {"pipeline=3,schedule=pipedream,micro_batches=1", "pipeline=2,schedule=2bw,micro_batches=2",
        "data=2,pipeline=2,schedule=2bw,micro_batches=2"})
    for (const bool is_private : {false, true}) {
      SCOPED_TRACE(std::string(degrees) + (is_private ? ", private" : ", shared"));
      options.private_replicas = is_private;
      const auto actual = run_lockstep(model, plan_of(degrees, model), batches, options);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t k = 0; k < actual.size(); ++k) EXPECT_NEAR(actual[k].loss, expected[k].loss, 1e-12) << k;
    }
}

}  // namespace
}  // namespace trireme::test_support
