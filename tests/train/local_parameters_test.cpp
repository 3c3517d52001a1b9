// Whole federated runs in which clients keep their batch norms or other layers, and shares that differ in features.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "../base/expect_error.h"
#include "base/random.h"
#include "checkpoint/checkpoint_use.h"
#include "experiment/replica_batches.h"
#include "forecast/cost_source.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "program/compile.h"
#include "replica_training.h"
#include "runtime/local_parts_of.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/run.h"
#include "update/federated.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kFedBn = "fedavg,rounds=3,local_parameters=batch-norm";

class LocalParameterRuns : public Replicas {
 public:
  ~LocalParameterRuns() override { fs::remove_all(root_); }

 protected:
  LocalParameterRuns() {
    data.train = std::make_shared<MemoryDataset>(64, 1, Shape{3, 8, 8});
    data.test = std::make_shared<MemoryDataset>(16, 2, Shape{3, 8, 8});
    experiment.batch = 8;
    experiment.model_name = "cifar-resnet18";
    experiment.model_options = {{"width", 2}};
    experiment.optimizer.learning_rate = 0.05;
    experiment.replicas.shares = SampleShares::features;
    experiment.replicas.feature_noise = 0.5;
  }

  /// `from`: the checkpoint to resume; empty: none. `folder`: for checkpoints; empty: none are written.
  Outcome run_with_checkpoints(const std::string& strategy, const fs::path& folder, const fs::path& from) {
    const Model model = build_model(experiment, data);
    const Plan plan = plan_with_agreement(strategy, experiment, model, 2);
    CheckpointUse use;
    use.folder = folder;
    if (!from.empty()) use.resumed = open_resumption(from, plan, experiment, model, data).checkpoint;
    Keeping observer;
    RunResult row = train(experiment, model, data, plan, observer, interrupted, nullptr, std::move(use));
    EXPECT_EQ(row.status, RunStatus::ok) << row.reason;
    return {row, observer.weights, observer.steps};
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("local_parameters_test." + std::to_string(::getpid()));
};

TEST_F(LocalParameterRuns, BatchNormsDifferBetweenClientsAndAllElseIsEqual) {
  const Model model = build_model(experiment, data);
  const Plan plan = plan_with_agreement(kFedBn, experiment, model, 2);
  trireme::Run training(whole_experiment(experiment, plan), model, data, plan);
  training.work_all();
  ASSERT_EQ(training.error(), nullptr);
  const auto& policy = dynamic_cast<const FederatedPolicy&>(training.agreement()->update());
  const std::map<int, ModelValues> own = policy.own_models();
  ASSERT_EQ(own.size(), 2u);
  const LocalParts parts = local_parts_of(training.last_phase().training, model, policy.local_parameters(), "");
  int local_runs = 0;
  int64_t local_elements = 0;
  for (size_t i = 0; i < parts.runs.size(); ++i) {
    const bool equal = at::equal(own.at(0).weights[i], own.at(1).weights[i]);
    EXPECT_NE(equal, parts.runs[i].is_local) << "run " << i;
    local_runs += parts.runs[i].is_local ? 1 : 0;
    local_elements += parts.runs[i].is_local ? parts.runs[i].elements : 0;
  }
  int64_t channels = 0;
  for (const BufferSpec& buffer : model.buffers())
    if (buffer.name.ends_with("running_mean")) channels += element_count(buffer.shape);
  EXPECT_GT(local_runs, 0);
  EXPECT_GE(local_elements, 2 * channels) << "the weight and the bias of each channel";
  for (size_t s = 0; s < parts.statistics.size(); ++s) {
    EXPECT_TRUE(parts.statistics[s]) << s;
    EXPECT_FALSE(at::equal(own.at(0).statistics[s].mean, own.at(1).statistics[s].mean)) << s;
  }
}

TEST_F(LocalParameterRuns, AfterOneRoundTheirMeanIsThatOfFedAvg) {
  modelled(0.01);
  const Outcome local = run("fedavg,rounds=1,local_parameters=batch-norm", 2), plain = run("fedavg,rounds=1", 2);
  EXPECT_LT(largest_difference(local.weights, plain.weights), 1e-9) << "both clients have equally many samples";
  EXPECT_GT(largest_difference(run(kFedBn, 2).weights, run("fedavg,rounds=3", 2).weights), 1e-6);
}

TEST_F(LocalParameterRuns, OwnModelsAreEvaluatedAndTheirMeanIsReported) {
  modelled(0.01);
  const RunResult row = run(kFedBn, 2).row;
  ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
  ASSERT_TRUE(row.replicas && row.test);
  ASSERT_EQ(row.replicas->own.size(), 2u);
  double loss = 0, accuracy = 0;
  for (int r = 0; r < 2; ++r) {
    const OwnEvaluation& own = row.replicas->own[size_t(r)];
    EXPECT_EQ(own.replica, r);
    loss += own.loss / 2;
    accuracy += own.metrics.front().value / 2;
  }
  EXPECT_NE(row.replicas->own[0].loss, row.replicas->own[1].loss);
  EXPECT_DOUBLE_EQ(row.test->loss, loss);
  EXPECT_DOUBLE_EQ(row.test->main()->value, accuracy);
  EXPECT_THAT(row.warnings.back(), HasSubstr("means over the own models of 2 clients"));
  const RunResult plain = run("fedavg,rounds=3", 2).row;
  EXPECT_TRUE(plain.replicas->own.empty());
}

TEST_F(LocalParameterRuns, AResumedRunIsTheUninterruptedOne) {
  modelled(0.01);
  experiment.checkpoint.every = {1, Length::Unit::epochs};
  experiment.checkpoint.keep = 0;
  experiment.checkpoint.where = "tiny.toml: checkpoint";
  fs::create_directories(root_);
  const std::string policy = "fedavg,rounds=4,local_parameters=batch-norm";
  const Outcome whole = run_with_checkpoints(policy, root_ / "whole", {});
  std::vector<fs::path> written;
  for (const fs::directory_entry& entry : fs::directory_iterator(root_ / "whole")) written.push_back(entry.path());
  std::sort(written.begin(), written.end());
  ASSERT_GE(written.size(), 3u);
  for (const fs::path& cut : {written[0], written[1]}) {
    const Outcome resumed = run_with_checkpoints(policy, {}, cut);
    EXPECT_EQ(largest_difference(resumed.weights, whole.weights), 0) << cut;
    ASSERT_EQ(resumed.row.replicas->own.size(), 2u);
    for (size_t r = 0; r < 2; ++r) EXPECT_EQ(resumed.row.replicas->own[r].loss, whole.row.replicas->own[r].loss) << cut;
  }
  expect_error(Blame::user, {"policy"}, [&] { run_with_checkpoints("fedavg,rounds=4", {}, written[0]); });
}

TEST_F(LocalParameterRuns, DividedReplicasKeepTheSameParts) {
  experiment.batch_norm = BatchNormScope::global;
  experiment.optimizer.learning_rate = 0.0005;  // batch norms of few samples amplify rounding with every step
  const Outcome whole = run(kFedBn, 2), divided = run(std::string(kFedBn) + ",inner=data=2,sharding=zero1", 4),
                stages = run(std::string(kFedBn) + ",inner=pipeline=2,micro_batches=1", 4);
  for (const Outcome* other : {&divided, &stages}) {
    ASSERT_EQ(other->row.status, RunStatus::ok) << other->row.reason;
    for (const auto& [name, values] : whole.weights)
      EXPECT_LT((other->weights.at(name) - values).abs().max().item<double>(), 1e-9)
          << name << (other == &divided ? ", zero1" : ", pipeline");
  }
}

TEST_F(LocalParameterRuns, BytesAreThoseOfWhatIsExchangedAndPredicted) {
  const Model model = build_model(experiment, data);
  const auto bytes = [&](const std::string& strategy) {
    const Plan plan = plan_with_agreement(strategy, experiment, model, 2);
    const CostSource source = described_source(experiment, model, slow_cluster(2), device_numbers(0, plan.workers()));
    const RunResult predicted = predict(experiment, model, plan, source);
    const auto measured = double(run(strategy, 2).row.replicas->bytes);
    EXPECT_NEAR(double(predicted.replicas->bytes) / measured, 1, 0.02) << strategy;
    return measured;
  };
  EXPECT_LT(bytes(kFedBn), 0.95 * bytes("fedavg,rounds=3"));
}

TEST_F(LocalParameterRuns, NamesThatFitNothingAreRefused) {
  const auto refuses = [&](const std::string& words, const std::vector<std::string>& says) {
    expect_error(Blame::user, says, [&] { run("fedavg,rounds=1,local_parameters=" + words, 2); });
  };
  refuses("classifier.*", {"strategy \"fedavg,rounds=1,local_parameters=classifier.*\": local_parameters",
                           "classifier.*", "no such parameter"});
  refuses("*", {"local_parameters", "nothing would be exchanged"});
  EXPECT_EQ(run("fedavg,rounds=1,local_parameters=fc.*", 2).row.status, RunStatus::ok);
  experiment.model_name = "mlp";
  experiment.model_options = {};
  refuses("batch-norm", {"local_parameters", "no layer with running statistics"});
}

TEST_F(LocalParameterRuns, AKeyOfTheFileIsRefusedWithItsPlace) {
  const auto table =
      ConfigTable::from_string("[update.fedavg]\nrounds = 1\nlocal_parameters = \"classifier.*\"", "e.toml");
  experiment.replicas = read_replica_spec(table.table("update"));
  expect_error(Blame::user, {"e.toml:3: update.fedavg.local_parameters", "classifier.*", "no such parameter"},
               [&] { run("fedavg", 2); });
}

TEST_F(LocalParameterRuns, FeaturesOfAClientHaveItsNoiseInEveryEpoch) {
  const ReplicaBatches batches(experiment, data, 4, /*equal_steps=*/false);
  const Philox random(random_key(experiment.seed, "features of the training samples"));
  for (int r = 0; r < 4; ++r) {
    const double deviation = std::sqrt(0.5 * (r + 1) / 4);
    for (const int64_t step : {int64_t(0), batches.steps_per_epoch(r)}) {
      const PlannedBatch batch = batches.training(r, step);
      const at::Tensor noisy = batch.set->get(batch.indices, batch.draw).data,
                       plain = data.train->get(batch.indices, batch.draw).data;
      const at::Tensor noise = (noisy - plain).reshape({int64_t(batch.indices.size()), -1});
      for (size_t i = 0; i < batch.indices.size(); ++i)
        for (int64_t k = 0; k < noise.size(1); k += 17)
          EXPECT_NEAR(noise[int64_t(i)][k].item<float>(),
                      deviation * random.normal(uint64_t(k), uint64_t(batch.indices[i])), 1e-5);
    }
    const PlannedBatch test = batches.evaluation(r, 0), same = batches.evaluation(r, 0);
    const at::Tensor noise = test.set->get(test.indices, {}).data - data.test->get(test.indices, {}).data;
    EXPECT_NEAR(noise.std().item<double>() / deviation, 1, 0.1) << r;
    EXPECT_TRUE(at::equal(test.set->get(test.indices, {}).data, same.set->get(same.indices, {}).data));
  }
  EXPECT_EQ(batches.whole().evaluation(0).set, data.test) << "others are evaluated without noise";
  experiment.replicas.shares = SampleShares::samples;
  EXPECT_EQ(ReplicaBatches(experiment, data, 4, false).evaluation(1, 0).set, data.test);
}

TEST_F(LocalParameterRuns, NoiseIsForFeaturesAndForRealNumbers) {
  const auto read = [](const std::string& text) {
    const ConfigTable file = ConfigTable::from_string("[update]\n" + text, "x.toml");
    return read_replica_spec(file.table("update"));
  };
  EXPECT_EQ(read("shares = \"features\"\nfeature_noise = 0.3").feature_noise, 0.3);
  expect_error(Blame::user, {"feature_noise", "shares = \"features\""}, [&] { read("feature_noise = 0.3"); });
  expect_error(Blame::user, {"feature_noise", "above 0"}, [&] { read("shares = \"features\"\nfeature_noise = 0"); });
  experiment.own_data = true;
  expect_error(Blame::user, {"features", "--own-data"}, [&] { ReplicaBatches(experiment, data, 2, false); });
}

}  // namespace
}  // namespace trireme::test_support
