// Runs whose workers are processes; here each rank is a thread with its own communicator. They give the same curve and
// weights as worker threads with private replicas, bit for bit, and every rank ends with the run.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "comm/backends.h"
#include "experiment/make_plan.h"
#include "experiment/run_device.h"
#include "forecast/agreement_plan.h"
#include "model/weights/match.h"
#include "plan/named.h"
#include "process_ranks.h"
#include "tiny_training.h"
#include "train/follower_rank.h"
#include "train/outcome_text.h"
#include "train/trainer.h"
#include "trireme/error.h"
#include "update/registry.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Keeping : TrainObserver {
  void on_step(const StepReport&) override { ++steps; }
  void on_weights(const Weights& trained) override { weights = trained; }
  std::atomic<int> steps{0};
  Weights weights;
};

/// The result of a run: rank 0's row and weights, and the errors of the other ranks ("" if they succeeded).
struct Outcome {
  RunResult row;
  Weights weights;
  std::vector<std::string> ends;
};

class ProcessRun : public TinyTraining {
 protected:
  ProcessRun() {
    experiment.length = {30, Length::Unit::steps};
    experiment.evaluate_every = {13, Length::Unit::steps};
    experiment.optimizer.learning_rate = 0.1;
    experiment.optimizer.momentum = 0.9;
    experiment.private_replicas = true;
  }

  /// Returns the same plan each time, because stages are cut by measured times.
  const Plan& plan_of(const std::string& strategy, int devices, const Model& model) {
    std::optional<Plan>& plan = plans_[{strategy, devices}];
    if (!plan) plan = make_plan(strategy, experiment, model, devices);
    return *plan;
  }

  Outcome in_threads(const std::string& strategy, int devices) {
    const Model model = build_model(experiment, data);
    Keeping observer;
    Outcome outcome;
    outcome.row = train(experiment, model, data, plan_of(strategy, devices, model), observer, interrupted);
    outcome.weights = observer.weights;
    return outcome;
  }

  /// `data_of_rank_1`: data of rank 1; null: as the other ranks.
  Outcome as_processes(const std::string& strategy, int devices, const TaskData* data_of_rank_1 = nullptr) {
    const Model model = build_model(experiment, data);
    const Plan& plan = plan_of(strategy, devices, model);
    Outcome outcome;
    outcome.ends = as_ranks(devices, [&](const std::shared_ptr<ProcessRank>& process) {
      const int rank = process->rank();
      if (rank > 0)
        return run_follower_rank(experiment, model, rank == 1 && data_of_rank_1 ? *data_of_rank_1 : data, plan, process,
                                 interrupted);
      outcome.row = train(experiment, model, data, plan, observer, interrupted, nullptr, {}, process);
      outcome.weights = observer.weights;
    });
    return outcome;
  }

  /// As as_processes, over gloo, each rank on one of the strict devices. `links`: null, or how tensors travel between
  /// these.
  Outcome on_gpus(const std::string& strategy, int devices, const BackendKind* links = nullptr) {
    const Model model = build_model(experiment, data);
    const Plan plan = is_update_policy(strategy) ? plan_with_agreement(strategy, experiment, model, devices)
                                                 : plan_of(strategy, devices, model);
    const RendezvousFile rendezvous;
    const auto connect = [&](int rank) {
      return gloo_communicator({.rank = rank, .size = devices, .store_file = rendezvous.path()});
    };
    Outcome outcome;
    outcome.ends = as_ranks(devices, connect, [&](const std::shared_ptr<ProcessRank>& process) {
      RunSpec own = experiment;
      own.device = c10::DeviceType::PrivateUse1;
      own.processes = true;
      own.rank = own.rank_on_machine = process->rank();
      process->count_gpus(gpu_ids(own));
      EXPECT_EQ(process->gpus(), test::kStrictDevices);
      if (links) process->connect_gpus(*links, test::strict_device(process->rank()));
      if (process->rank() > 0) return run_follower_rank(own, model, data, plan, process, interrupted);
      outcome.row = train(own, model, data, plan, observer, interrupted, nullptr, {}, process);
      outcome.weights = observer.weights;
    });
    return outcome;
  }

  static void expect_same(const Outcome& processes, const Outcome& threads) {
    ASSERT_EQ(processes.row.status, RunStatus::ok) << processes.row.reason;
    EXPECT_THAT(processes.ends, ::testing::Each(IsEmpty()));
    ASSERT_EQ(processes.row.curve.size(), threads.row.curve.size());
    for (size_t i = 0; i < threads.row.curve.size(); ++i) {
      const CurvePoint &there = processes.row.curve[i], &here = threads.row.curve[i];
      EXPECT_EQ(there.loss, here.loss) << "step " << i;
      EXPECT_EQ(there.learning_rate, here.learning_rate) << "step " << i;
      ASSERT_EQ(there.gradient_norm.has_value(), here.gradient_norm.has_value());
      if (here.gradient_norm) {
        EXPECT_NEAR(*there.gradient_norm, *here.gradient_norm, 1e-9 * *here.gradient_norm) << "step " << i;
      }
    }
    ASSERT_EQ(processes.row.evaluations.size(), threads.row.evaluations.size());
    for (size_t i = 0; i < threads.row.evaluations.size(); ++i) {
      EXPECT_EQ(processes.row.evaluations[i].loss, threads.row.evaluations[i].loss) << "evaluation " << i;
      EXPECT_EQ(processes.row.evaluations[i].metrics, threads.row.evaluations[i].metrics) << "evaluation " << i;
    }
    ASSERT_EQ(processes.weights.tensors.size(), threads.weights.tensors.size());
    for (const auto& [name, tensor] : threads.weights.tensors)
      EXPECT_TRUE(at::equal(processes.weights.tensors.at(name), tensor)) << name;
  }

  Keeping observer;

 private:
  std::map<std::pair<std::string, int>, std::optional<Plan>> plans_;
};

TEST_F(ProcessRun, TrainsAsThreadsDo) {
  for (const auto& [strategy, devices] :
       std::vector<std::pair<std::string, int>>{{"data", 2},
                                                {"data", 3},
                                                {"data=2,tensor=2", 4},
                                                {"tensor", 2},
                                                {"gpipe", 2},
                                                {"zero1", 2},
                                                {"zero2", 3},
                                                {"zero3", 3},
                                                {"zero1,sharding_group=2", 4},
                                                {"zero3,sharding_group=2,micro_batches=2", 4},
                                                {"data=2,pipeline=2,schedule=1f1b", 4}}) {
    SCOPED_TRACE(strategy);
    const Outcome threads = in_threads(strategy, devices), processes = as_processes(strategy, devices);
    ASSERT_GT(threads.row.curve.front().loss - threads.row.curve.back().loss, 0.1) << "something is learnt";
    expect_same(processes, threads);
    EXPECT_EQ(threads.row.backend, "local");
    EXPECT_EQ(processes.row.backend, "gloo");
    EXPECT_EQ(processes.row.bytes_per_step, threads.row.bytes_per_step);
    EXPECT_EQ(processes.row.busy_share.size(), size_t(devices));
    ASSERT_TRUE(processes.row.timeline);
    EXPECT_EQ(processes.row.timeline->workers, devices);
    ASSERT_EQ(processes.row.memory.size(), size_t(devices));
    for (int rank = 0; rank < devices; ++rank)
      EXPECT_EQ(processes.row.memory[size_t(rank)].current[size_t(MemoryCategory::optimizer)],
                threads.row.memory[size_t(rank)].current[size_t(MemoryCategory::optimizer)]);
  }
}

constexpr BackendKind kThreadLinks{
    .name = "links of threads",
    .help = "",
    .purpose = "tensors from device to device",
    .between_gpus = [](std::unique_ptr<Communicator> control, c10::Device device) -> std::unique_ptr<Communicator> {
      return direct_communicator(std::move(control), std::make_shared<ThreadLinks>(device));
    }};

/// The communicator of backend nccl, with other links than NCCL's.
TEST_F(ProcessRun, OnGpusThatSendToEachOther) {
  if (device_under_test() != "strict" || !gloo_available()) GTEST_SKIP() << "needs several devices and gloo";
  for (const auto& [strategy, devices] :
       std::vector<std::pair<std::string, int>>{{"data", 3},
                                                {"tensor", 2},
                                                {"1f1b,micro_batches=4", 2},
                                                {"zero2", 2},
                                                {"zero3", 3},
                                                {"data=2,pipeline=2,schedule=1f1b", 4}}) {
    SCOPED_TRACE(strategy);
    const Outcome threads = in_threads(strategy, devices), processes = on_gpus(strategy, devices, &kThreadLinks);
    expect_same(processes, threads);
    EXPECT_FALSE(processes.row.core_seconds) << "GPUs computed";
    EXPECT_EQ(processes.row.backend, kThreadLinks.name);
    EXPECT_EQ(processes.row.bytes_per_step, threads.row.bytes_per_step);
  }
  for (const char* const policy : {"local-sgd,every=2 steps", "easgd,period=2"}) {
    const Outcome processes = on_gpus(policy, 2, &kThreadLinks);
    EXPECT_EQ(processes.row.status, RunStatus::ok) << policy << ": " << processes.row.reason;
    EXPECT_THAT(processes.ends, ::testing::Each(IsEmpty())) << policy;
  }
}

TEST_F(ProcessRun, OnGpusToWhichSamplesAreCopiedAhead) {
  if (device_under_test() != "strict" || !gloo_available()) GTEST_SKIP() << "needs several devices and gloo";
  experiment.batch = 70;  // several pieces, as threads load them, and a shorter last one
  const Outcome threads = in_threads("data=2,micro_batches=2", 2);
  experiment.copy_ahead = true;
  for (const int loading : {0, 2}) {
    experiment.loading_threads = loading;
    expect_same(on_gpus("data=2,micro_batches=2", 2), threads);
  }
}

TEST_F(ProcessRun, OnGpusOfTheirOwn) {
  if (device_under_test() != "strict" || !gloo_available()) GTEST_SKIP() << "needs several devices and gloo";
  for (const auto& [strategy, devices] :
       std::vector<std::pair<std::string, int>>{{"data", 3},
                                                {"tensor", 2},
                                                {"gpipe", 2},
                                                {"zero1", 2},
                                                {"zero3", 3},
                                                {"data=2,pipeline=2,schedule=1f1b", 4}}) {
    SCOPED_TRACE(strategy);
    const Outcome threads = in_threads(strategy, devices);  // all where the test's environment places them
    for (int device = 0; device < devices; ++device) test::reset_strict_peak(device);
    expect_same(on_gpus(strategy, devices), threads);
    for (int device = 0; device < devices; ++device) EXPECT_GT(test::strict_peak_bytes(device), 0) << device;
  }
  for (const std::string strategy : {"local-sgd", "easgd", "fedavg,rounds=2"}) {
    SCOPED_TRACE(strategy);
    const Outcome outcome = on_gpus(strategy, 2);
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    EXPECT_THAT(outcome.ends, ::testing::Each(IsEmpty()));
    EXPECT_FALSE(outcome.row.evaluations.empty());
  }
}

TEST_F(ProcessRun, TellHowFastTheCoresWere) {
  train_set->pause = std::chrono::milliseconds(20);  // steps long enough for a measurement each
  experiment.length = {6, Length::Unit::steps};
  const Outcome processes = as_processes("data", 2);
  EXPECT_EQ(processes.row.status, RunStatus::ok) << processes.row.reason;
  EXPECT_GT(processes.row.core_seconds.value_or(0), 0);
}

TEST_F(ProcessRun, SamplesLoadedAheadAreTheSame) {
  experiment.batch = 70;  // several pieces, as threads load them, and a shorter last one
  const Outcome direct = in_threads("data=2,micro_batches=2", 2);
  experiment.loading_threads = 1;
  expect_same(as_processes("data=2,micro_batches=2", 2), direct);
}

TEST_F(ProcessRun, AveragedWeightsAndNormsAreTheSame) {
  experiment.optimizer.ema = 0.9;
  experiment.noise_scale = true;
  experiment.clip_norm = 0.5;
  const Outcome threads = in_threads("data", 2), processes = as_processes("data", 2);
  expect_same(processes, threads);
  ASSERT_TRUE(threads.row.noise_scale);
  EXPECT_TRUE(processes.row.curve.front().gradient_norm);
  EXPECT_EQ(processes.row.noise_scale, threads.row.noise_scale);
}

TEST_F(ProcessRun, TheFailedRankIsNamed) {
  auto broken = std::make_shared<MemoryDataset>(210, 1);
  broken->fail_after = 12;
  TaskData bad = data;
  bad.train = broken;
  const Outcome outcome = as_processes("data", 3, &bad);
  EXPECT_EQ(outcome.row.status, RunStatus::failed);
  EXPECT_THAT(outcome.row.reason, HasSubstr("rank 1 failed: disk on fire"));
  EXPECT_THAT(outcome.ends[1], HasSubstr("disk on fire"));
  EXPECT_THAT(outcome.ends[2], HasSubstr("rank 1 failed: disk on fire"));
}

TEST_F(ProcessRun, AllEndAfterTheSameStep) {
  experiment.length = {100000, Length::Unit::steps};
  experiment.time_limit = 1;
  train_set->pause = std::chrono::milliseconds(1);
  const Outcome outcome = as_processes("data", 3);
  EXPECT_EQ(outcome.row.status, RunStatus::timed_out) << outcome.row.reason;
  EXPECT_THAT(outcome.ends, ::testing::Each(IsEmpty()));
  EXPECT_GT(outcome.row.curve.size(), 5u);
  EXPECT_FALSE(outcome.weights.tensors.empty());
}

TEST_F(ProcessRun, AnInterruptEndsAllRanks) {
  experiment.length = {100000, Length::Unit::steps};
  train_set->pause = std::chrono::milliseconds(1);
  std::thread user([&] {
    while (observer.steps == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    interrupted = true;
  });
  const Outcome outcome = as_processes("data", 2);
  user.join();
  EXPECT_EQ(outcome.row.status, RunStatus::interrupted) << outcome.row.reason;
  EXPECT_FALSE(outcome.weights.tensors.empty());
}

TEST(OutcomeText, KeepsEveryBit) {
  PostedOutcome posted{.step = 7, .evaluation = true, .outcome = {}, .load_seconds = 1.0 / 3, .end_requested = true};
  posted.outcome.loss_sum = std::numeric_limits<double>::quiet_NaN();
  posted.outcome.metrics = {{"correct", 12}, {"worst", -std::numeric_limits<double>::infinity()}};
  posted.outcome.begin = 1e9 / 7;
  posted.outcome.bytes_sent = int64_t{1} << 53;
  posted.outcome.norms.inverse_samples = 0.1;
  posted.outcome.not_finite = "fc1.weight";
  posted.outcome.not_finite_at = 1e9 / 3;
  posted.outcome.events = {{1, EventKind::reduce, "reduce \"fc1\"", 2, 0.25, 1.0 / 7, 99}};
  const PostedOutcome read = outcome_from(to_text(posted));
  EXPECT_EQ(read.step, 7);
  EXPECT_TRUE(read.evaluation);
  EXPECT_TRUE(read.end_requested);
  EXPECT_EQ(read.load_seconds, posted.load_seconds);
  EXPECT_TRUE(std::isnan(read.outcome.loss_sum));
  EXPECT_EQ(read.outcome.metrics, posted.outcome.metrics);
  EXPECT_EQ(read.outcome.begin, posted.outcome.begin);
  EXPECT_EQ(read.outcome.bytes_sent, posted.outcome.bytes_sent);
  EXPECT_EQ(read.outcome.norms.inverse_samples, 0.1);
  EXPECT_EQ(read.outcome.not_finite, "fc1.weight");
  EXPECT_EQ(read.outcome.not_finite_at, 1e9 / 3);
  ASSERT_EQ(read.outcome.events.size(), 1u);
  EXPECT_EQ(read.outcome.events[0].name, "reduce \"fc1\"");
  EXPECT_EQ(read.outcome.events[0].kind, EventKind::reduce);
  EXPECT_EQ(read.outcome.events[0].end, 1.0 / 7);
  EXPECT_THROW(outcome_from("rubbish"), Error);
}

}  // namespace
}  // namespace trireme::test_support
