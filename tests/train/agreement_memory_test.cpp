// Compares the predicted memory of replicas under update policies with that of runs.
#include "forecast/cost_source.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "replica_training.h"

namespace trireme::test_support {
namespace {

class AgreementMemoryOfRuns : public Replicas, public ::testing::WithParamInterface<const char*> {};

TEST_P(AgreementMemoryOfRuns, IsPredicted) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "a GPU's memory has workspaces too; the strict device counts none";
  constexpr int kReplicas = 2;
  const Model model = build_model(experiment, data);
  const Outcome measured = run(GetParam(), kReplicas);
  ASSERT_EQ(measured.row.status, RunStatus::ok) << measured.row.reason;
  const Plan plan = plan_with_agreement(GetParam(), experiment, model, kReplicas);
  const CostSource source =
      described_source(experiment, model, slow_cluster(kReplicas), device_numbers(0, plan.workers()));
  const RunResult predicted = predict(experiment, model, plan, source);
  int64_t most = 0;
  for (const MemoryUse& use : measured.row.memory) most = std::max(most, use.peak);
  // With these the peak depends on which replica comes first: by up to three copies of the weights.
  const std::string policy = GetParam();
  const bool depends = policy.find("rounds") != std::string::npos || policy == "partial";
  int64_t weights = 0;
  for (const ParameterSpec& parameter : model.parameters()) weights += element_count(parameter.shape) * 8;
  EXPECT_NEAR(double(predicted.memory.front().peak), double(most), depends ? 3.0 * double(weights) : 256);
}

INSTANTIATE_TEST_SUITE_P(Policies, AgreementMemoryOfRuns,
                         ::testing::Values("local-sgd,every=2 steps", "local-sgd,every=3 steps,overlap=1",
                                           "diloco,every_steps=3", "streaming-diloco,every_steps=4,fragments=2",
                                           "async-average", "easgd,period=2", "downpour,push_every=2,fetch_every=2",
                                           "shat,period=2", "fedavg,rounds=3", "fedadam,rounds=3", "scaffold,rounds=3",
                                           "gossip", "gossip,compression=topk:0.1", "gossip,compression=sign",
                                           "partial"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace trireme::test_support
