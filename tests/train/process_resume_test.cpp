// Checkpoints of runs whose workers are processes; here each rank is a thread with its own communicator. They equal
// those of threads, bit for bit, under any plan. A run with threads can resume from a checkpoint of processes and vice
// versa.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/resume.h"
#include "experiment/make_plan.h"
#include "forecast/agreement_plan.h"
#include "plan/named.h"
#include "process_ranks.h"
#include "support/device_under_test.h"
#include "tiny_training.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/follower_rank.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSteps = 16, kEvery = 6;  // checkpoints after 6 (in the middle of an epoch), 12 and 16

struct Way {
  std::string plan;
  int devices;
};

struct Outcome {
  RunResult row;
  TensorMap weights;
};

struct Recorder : TrainObserver {
  TensorMap weights;
  std::atomic<bool>* interrupted = nullptr;  ///< set after `last_step`
  int64_t last_step = 0;
  void on_step(const StepReport& report) override {
    if (interrupted && report.point.step >= last_step) *interrupted = true;
  }
  void on_weights(const Weights& trained) override { weights = trained.tensors; }
};

class ProcessResume : public TinyTraining {
 protected:
  ProcessResume() {
    experiment.length = {double(kSteps), Length::Unit::steps};
    experiment.evaluate_every = {4, Length::Unit::steps};
    experiment.optimizer = {.kind = &kAdamW, .learning_rate = 0.01, .weight_decay = 0.01, .epsilon = 1e-3, .ema = 0.9};
    experiment.schedule.kind = LearningRateSchedule::Kind::cosine;
    experiment.clip_norm = 1;
    experiment.private_replicas = true;
    experiment.checkpoint = {.every = {double(kEvery), Length::Unit::steps},
                             .keep = 0,
                             .best = {},
                             .folder = {},
                             .where = "tiny.toml: checkpoint"};
    fs::create_directories(root_);
  }
  ~ProcessResume() override { fs::remove_all(root_); }

  CheckpointUse use_of(const Model& model, const fs::path& folder, const fs::path& from) {
    CheckpointUse use{.folder = folder, .resumed = {}, .files = nullptr};
    if (!from.empty()) use.resumed = open_resumption(from, experiment, model, data).checkpoint;
    return use;
  }

  Outcome in_threads(const Way& way, const fs::path& folder, const fs::path& from = {}) {
    const Model model = build_model(experiment, data);
    Recorder recorder;
    Outcome outcome;
    outcome.row = train(experiment, model, data, make_plan(way.plan, experiment, model, way.devices), recorder,
                        interrupted, nullptr, use_of(model, folder, from));
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    outcome.weights = recorder.weights;
    return outcome;
  }

  Outcome as_processes(const Way& way, const fs::path& folder, const fs::path& from = {}, Recorder recorder = {}) {
    const Model model = build_model(experiment, data);
    const Plan plan = make_plan(way.plan, experiment, model, way.devices);
    Outcome outcome;
    const auto ends = as_ranks(way.devices, [&](const std::shared_ptr<ProcessRank>& process) {
      if (process->rank() > 0) return run_follower_rank(experiment, model, data, plan, process, interrupted);
      outcome.row =
          train(experiment, model, data, plan, recorder, interrupted, nullptr, use_of(model, folder, from), process);
    });
    EXPECT_THAT(ends, Each(IsEmpty()));
    EXPECT_EQ(outcome.row.status, recorder.interrupted ? RunStatus::interrupted : RunStatus::ok) << outcome.row.reason;
    outcome.weights = recorder.weights;
    return outcome;
  }

  TaskData with(std::shared_ptr<const Dataset> train, std::shared_ptr<const Dataset> test) const {
    TaskData other = data;
    other.train = std::move(train);
    other.test = std::move(test);
    return other;
  }

  /// Runs until the last rank cannot read its data `broken`; returns the result up to then.
  Outcome until_a_rank_fails(const Way& way, const fs::path& folder, const TaskData& broken) {
    const Model model = build_model(experiment, data);
    const Plan plan = make_plan(way.plan, experiment, model, way.devices);
    Outcome outcome;
    Recorder recorder;
    const auto ends = as_ranks(way.devices, [&](const std::shared_ptr<ProcessRank>& process) {
      const int rank = process->rank();
      if (rank > 0)
        return run_follower_rank(experiment, model, rank == way.devices - 1 ? broken : data, plan, process,
                                 interrupted);
      outcome.row =
          train(experiment, model, data, plan, recorder, interrupted, nullptr, use_of(model, folder, {}), process);
    });
    EXPECT_THAT(ends.back(), HasSubstr("disk on fire"));
    EXPECT_EQ(outcome.row.status, RunStatus::failed);
    EXPECT_THAT(outcome.row.reason, HasSubstr("disk on fire"));
    return outcome;
  }

  /// Resumes from `folder` and expects that `before` and the resumed run together equal `whole`, bit for bit. Returns
  /// the step between the two.
  int64_t expect_nothing_is_lost(const Way& way, const Outcome& before, const fs::path& folder, const Outcome& whole) {
    const std::vector<FoundCheckpoint> found = find_checkpoints(folder);
    const int64_t step = found.empty() ? 0 : found.back().step;
    EXPECT_EQ(step, before.row.curve.empty() ? 0 : before.row.curve.back().step)
        << "all that was trained, and reported, is kept";
    Outcome after = as_processes(way, {}, found.empty() ? fs::path() : folder);
    after.row.curve.insert(after.row.curve.begin(), before.row.curve.begin(), before.row.curve.end());
    after.row.evaluations.insert(after.row.evaluations.begin(), before.row.evaluations.begin(),
                                 before.row.evaluations.end());
    EXPECT_EQ(after.row.curve.size(), whole.row.curve.size());
    for (size_t i = 0; i < whole.row.curve.size() && i < after.row.curve.size(); ++i) {
      EXPECT_EQ(after.row.curve[i].step, whole.row.curve[i].step);
      EXPECT_EQ(after.row.curve[i].loss, whole.row.curve[i].loss) << "step " << i + 1;
    }
    EXPECT_EQ(after.row.evaluations.size(), whole.row.evaluations.size());
    for (size_t i = 0; i < whole.row.evaluations.size() && i < after.row.evaluations.size(); ++i) {
      EXPECT_EQ(after.row.evaluations[i].step, whole.row.evaluations[i].step);
      EXPECT_EQ(after.row.evaluations[i].loss, whole.row.evaluations[i].loss)
          << "after step " << after.row.evaluations[i].step;
    }
    for (const auto& [name, tensor] : whole.weights) EXPECT_TRUE(at::equal(tensor, after.weights.at(name))) << name;
    return step;
  }

  fs::path folder(const std::string& name) const { return root_ / name; }
  fs::path cut(const std::string& name) const { return root_ / name / checkpoint_name(kEvery); }

  void expect_same_checkpoints(const std::string& name, const std::string& other, const std::vector<int64_t>& steps) {
    const Model model = build_model(experiment, data);
    for (const int64_t step : steps) {
      SCOPED_TRACE(step);
      const Checkpoint a = read_checkpoint(folder(name) / checkpoint_name(step), model),
                       b = read_checkpoint(folder(other) / checkpoint_name(step), model);
      EXPECT_EQ(std::tuple(a.index.samples, a.index.epoch, a.index.loss, a.index.updates, a.index.settings),
                std::tuple(b.index.samples, b.index.epoch, b.index.loss, b.index.updates, b.index.settings));
      const auto expect_equal = [](const TensorMap& x, const TensorMap& y) {
        EXPECT_EQ(x.size(), y.size());
        for (const auto& [key, tensor] : x) EXPECT_TRUE(y.contains(key) && at::equal(tensor, y.at(key))) << key;
      };
      expect_equal(a.state.weights, b.state.weights);
      expect_equal(a.state.buffers, b.state.buffers);
      expect_equal(a.state.averaged_buffers, b.state.averaged_buffers);
      expect_equal(a.state.carried, b.state.carried);
      expect_equal(a.state.errors, b.state.errors);
      expect_equal(a.state.factors, b.state.factors);
      ASSERT_EQ(a.state.optimizer.size(), b.state.optimizer.size());
      for (const auto& [key, states] : a.state.optimizer) {
        const std::vector<at::Tensor>& others = b.state.optimizer.at(key);
        ASSERT_EQ(states.size(), others.size()) << key;
        ASSERT_EQ(int(states.size()), optimizer_state_count(experiment.optimizer));
        for (size_t k = 0; k < states.size(); ++k) EXPECT_TRUE(at::equal(states[k], others[k])) << key << " " << k;
      }
    }
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("process_resume_test." + std::to_string(::getpid()));
};

/// Expects that `resumed` equals `whole` from step kEvery on, within `tolerance`; 0: bit for bit.
void expect_continued(const Outcome& resumed, const Outcome& whole, double tolerance) {
  const auto expect_near = [&](double a, double b, const std::string& what) {
    EXPECT_LE(std::abs(a - b), tolerance * std::abs(b)) << what;
  };
  ASSERT_EQ(whole.row.curve.size(), size_t(kSteps));
  ASSERT_EQ(resumed.row.curve.size(), size_t(kSteps - kEvery));
  for (size_t i = 0; i < resumed.row.curve.size(); ++i) {
    const CurvePoint &a = resumed.row.curve[i], &b = whole.row.curve[i + kEvery];
    EXPECT_EQ(std::pair(a.step, a.samples), std::pair(b.step, b.samples));
    ASSERT_TRUE(std::isfinite(b.loss));
    expect_near(a.loss, b.loss, "loss of step " + std::to_string(b.step));
  }
  ASSERT_EQ(resumed.row.evaluations.size() + 1, whole.row.evaluations.size());
  for (size_t i = 0; i < resumed.row.evaluations.size(); ++i)
    expect_near(resumed.row.evaluations[i].loss, whole.row.evaluations[i + 1].loss, "test loss");
  ASSERT_FALSE(whole.weights.empty());
  ASSERT_EQ(resumed.weights.size(), whole.weights.size());
  for (const auto& [name, tensor] : whole.weights) {
    const double scale = std::max(1e-6, tensor.abs().max().item<double>());
    EXPECT_LE((resumed.weights.at(name) - tensor).abs().max().item<double>(), tolerance * scale) << name;
  }
}

TEST_F(ProcessResume, UnderTheSamePlanIsBitForBitTheUninterruptedRun) {
  for (const Way& way : {Way{"data", 2},
                         {"data", 3},
                         {"tensor", 2},
                         {"data=2,sharding=zero1", 2},
                         {"zero2", 3},
                         {"zero3", 3},
                         {"pipeline=2,micro_batches=2", 2},
                         {"data=2,tensor=2", 4},
                         {"data=2,pipeline=2,micro_batches=2,sharding=zero1", 4}}) {
    SCOPED_TRACE(way.plan);
    const Outcome threads = in_threads(way, folder("threads")), whole = as_processes(way, folder("processes"));
    for (size_t i = 0; i < whole.row.curve.size(); ++i) EXPECT_EQ(whole.row.curve[i].loss, threads.row.curve[i].loss);
    expect_same_checkpoints("threads", "processes", {6, 12, kSteps});
    ASSERT_TRUE(whole.row.checkpoints);
    EXPECT_EQ(
        std::tuple(whole.row.checkpoints->written, whole.row.checkpoints->failed, whole.row.checkpoints->newest_step),
        std::tuple(3, 0, kSteps));
    const Outcome resumed = as_processes(way, folder("resumed"), cut("processes"));
    expect_continued(resumed, whole, 0);
    expect_same_checkpoints("resumed", "processes", {12, kSteps});
    expect_continued(in_threads(way, {}, cut("processes")), whole, 0);
    expect_continued(as_processes(way, {}, cut("threads")), whole, 0);
    for (const char* name : {"threads", "processes", "resumed"}) fs::remove_all(folder(name));
  }
}

/// What PowerSGD has not sent yet is shared out anew, so the bits differ. With factors of rank 1 the curve is the same
/// for any number of workers. In a pipeline rank 0 gets the state of parameters that it does not hold.
TEST_F(ProcessResume, PowerSgdGoesOnWithAnyNumberOfWorkers) {
  experiment.precision = Precision::fp64;
  const auto under = [](const std::string& degrees, int devices) {
    return Way{degrees + ",compression=powersgd:1", devices};
  };
  const auto check = [&](const Way& way, const std::vector<Way>& others) {
    const Outcome threads = in_threads(way, folder("threads")), whole = as_processes(way, folder("processes"));
    for (size_t i = 0; i < whole.row.curve.size(); ++i) EXPECT_EQ(whole.row.curve[i].loss, threads.row.curve[i].loss);
    expect_same_checkpoints("threads", "processes", {6, 12, kSteps});
    const Checkpoint written = read_checkpoint(cut("processes"), build_model(experiment, data));
    EXPECT_FALSE(written.state.errors.empty());
    for (const auto& [name, error] : written.state.errors) EXPECT_GT(error.abs().max().item<double>(), 1e-9) << name;
    for (const Way& other : others) {
      SCOPED_TRACE(other.plan + " on " + std::to_string(other.devices));
      expect_continued(as_processes(other, {}, cut("processes")), whole, 1e-8);
      expect_continued(in_threads(other, {}, cut("processes")), whole, 1e-8);
    }
    for (const char* name : {"threads", "processes"}) fs::remove_all(folder(name));
  };
  check(under("data", 2), {under("data", 2), under("data", 3), under("data", 4)});
  check(under("data=2,pipeline=2,micro_batches=2", 4), {under("data=2,pipeline=2,micro_batches=2", 4)});
}

TEST_F(ProcessResume, PlansWithoutPowerSgdSayWhatTheyDrop) {
  const Model model = build_model(experiment, data);
  in_threads({"data,compression=powersgd:1", 2}, folder("threads"));
  const auto notices_under = [&](const std::string& plan, int devices) {
    Resumption resumption = open_resumption(cut("threads"), experiment, model, data);
    note_factors_left(make_plan(plan, experiment, model, devices), experiment, model, resumption);
    return resumption.notices;
  };
  EXPECT_THAT(notices_under("data,compression=powersgd:1", 3), IsEmpty());
  EXPECT_THAT(notices_under("data,compression=powersgd:2", 2), ElementsAre(HasSubstr("PowerSGD draws new factors")));
  for (const auto& [plan, devices] : {std::pair("single", 1), std::pair("data", 2), std::pair("zero1", 2),
                                      std::pair("data,compression=powersgd:1", 1)}) {
    EXPECT_THAT(notices_under(plan, devices), ElementsAre(HasSubstr("what PowerSGD had not sent yet")));
    in_threads({plan, devices}, {}, cut("threads"));
  }
  EXPECT_THAT(open_start(cut("threads"), experiment, model).notices,
              ElementsAre(HasSubstr("begins with"), HasSubstr("what PowerSGD had not sent yet")));
}

TEST_F(ProcessResume, UnderOtherPlansTheCurveContinues) {
  experiment.precision = Precision::fp64;
  experiment.model_options = {{"hidden", 16}, {"depth", 4}};
  const Outcome whole = as_processes({"data", 2}, folder("data")), sliced = as_processes({"zero3", 3}, folder("zero3"));
  for (const Way& way : {Way{"gpipe", 4},
                         {"tensor", 2},
                         {"data=3,sharding=zero1", 3},
                         {"data=2,tensor=2", 4},
                         {"data=2,pipeline=2,micro_batches=2", 4}}) {
    SCOPED_TRACE(way.plan);
    expect_continued(as_processes(way, {}, cut("data")), whole, 1e-9);
    expect_continued(as_processes(way, {}, cut("zero3")), sliced, 1e-9);
  }
  expect_continued(in_threads({"single", 1}, {}, cut("zero3")), sliced, 1e-9);
}

/// Layers' state and its averages; bfloat16 with master weights.
TEST_F(ProcessResume, TheWholeStateOfARunMigrates) {
  use_text();
  for (const Way& way : {Way{"data", 2}, {"pipeline=2,micro_batches=2", 2}, {"tensor", 2}}) {
    SCOPED_TRACE(way.plan);
    const Outcome text = as_processes(way, folder("text"));
    in_threads(way, folder("threads"));
    expect_same_checkpoints("threads", "text", {6, 12, kSteps});
    expect_continued(as_processes(way, {}, cut("text")), text, 0);
    for (const char* name : {"threads", "text"}) fs::remove_all(folder(name));
  }
  experiment.precision = Precision::bf16;
  const Outcome narrow = as_processes({"zero1", 2}, folder("narrow"));
  expect_continued(as_processes({"zero1", 2}, {}, cut("narrow")), narrow, 0);
}

TEST_F(ProcessResume, AnInterruptedRunLeavesACheckpointOfTheStepItEndedIn) {
  const Outcome whole = as_processes({"data", 2}, {});
  train_set->pause = std::chrono::milliseconds(20);
  Recorder impatient;
  impatient.interrupted = &interrupted;
  impatient.last_step = 7;
  const Outcome ended = as_processes({"data", 2}, folder("cut"), {}, impatient);
  interrupted = false;
  ASSERT_TRUE(ended.row.checkpoints);
  const int64_t last = ended.row.curve.back().step;
  ASSERT_GE(last, 7);
  ASSERT_LT(last, kSteps);
  EXPECT_EQ(ended.row.checkpoints->newest_step, last);
  const Outcome resumed = as_processes({"data", 2}, {}, folder("cut"));
  ASSERT_EQ(resumed.row.curve.size(), size_t(kSteps - last));
  for (size_t i = 0; i < resumed.row.curve.size(); ++i)
    EXPECT_EQ(resumed.row.curve[i].loss, whole.row.curve[i + size_t(last)].loss);
  for (const auto& [name, tensor] : whole.weights) EXPECT_TRUE(at::equal(tensor, resumed.weights.at(name))) << name;
}

/// Without waiting replicas, one of which is far slower. The signal reaches one rank only.
TEST_F(ProcessResume, ASignalToAnyRankEndsReplicasThatAgreeWithACheckpoint) {
  experiment.length = {1e6, Length::Unit::steps};
  experiment.evaluate_every = experiment.checkpoint.every = experiment.length;
  experiment.schedule.kind = LearningRateSchedule::Kind::constant;
  experiment.optimizer = {};
  experiment.optimizer.learning_rate = 0.01;
  experiment.private_replicas = false;
  experiment.clip_norm = 0;
  train_set->pause = std::chrono::milliseconds(2);
  const auto slow_set = std::make_shared<MemoryDataset>(210, 1);
  slow_set->pause = std::chrono::milliseconds(8);
  const TaskData slow = with(slow_set, data.test);
  const Model model = build_model(experiment, data);
  for (const char* policy : {"easgd,period=3", "shat,period=3", "downpour,warm_start_steps=2", "async-average",
                             "fedbuff,buffer=2", "local-sgd,every=3 steps", "fedavg,local=2 steps"})
    for (const int signalled : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("{}, rank {}", policy, signalled));
      const Plan plan = plan_with_agreement(policy, experiment, model, 3);
      std::atomic<bool> signal{false};
      Recorder recorder;
      recorder.interrupted = &signal;
      recorder.last_step = 5;
      RunResult row;
      const auto began = std::chrono::steady_clock::now();
      const auto ends = as_ranks(3, [&](const std::shared_ptr<ProcessRank>& process) {
        const int rank = process->rank();
        const std::atomic<bool>& own = rank == signalled ? signal : interrupted;
        if (rank > 0) return run_follower_rank(experiment, model, rank == 2 ? slow : data, plan, process, own);
        row = train(experiment, model, data, plan, recorder, own, nullptr,
                    {.folder = folder("cut"), .resumed = {}, .files = nullptr}, process);
      });
      EXPECT_THAT(ends, Each(IsEmpty()));
      EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(9)) << "it was ended in the middle";
      EXPECT_EQ(row.status, RunStatus::interrupted) << row.reason;
      EXPECT_EQ(row.reason,
                signalled == 0 ? "stopped by the user" : fmt::format("rank {} received a signal to end", signalled));
      ASSERT_TRUE(row.checkpoints);
      EXPECT_EQ(row.checkpoints->newest_step, row.curve.back().step);
      EXPECT_FALSE(recorder.weights.empty());
      const Resumption resumed = open_resumption(folder("cut"), plan, experiment, model, data);
      EXPECT_GE(resumed.checkpoint.index.samples, row.curve.back().samples) << "all steps that were made";
      EXPECT_EQ(progress_in(resumed.checkpoint.state, 3).size(), 3u);
      fs::remove_all(folder("cut"));
    }
}

/// With running statistics and averages, which a step changes before it is known to be complete.
TEST_F(ProcessResume, AnElasticRunLosesNoStepWithARank) {
  const Shape image{3, 8, 8};
  data.train = std::make_shared<MemoryDataset>(210, 1, image);
  data.test = std::make_shared<MemoryDataset>(90, 2, image);
  experiment.model_name = "cifar-resnet18";
  // With fewer channels, libtorch's own 1x1 convolutions, which the strict device runs, write out of bounds
  // (ConvolutionProduct::overruns_directly).
  experiment.model_options = {{"width", device_under_test() == "strict" ? 16 : 4}};
  for (const Way& way : {Way{"data", 2}, {"data=3,micro_batches=2", 3}}) {
    SCOPED_TRACE(way.plan);
    experiment.elastic = false;
    const Outcome plain = as_processes(way, {});
    experiment.elastic = true;
    const Outcome whole = as_processes(way, folder("whole"));
    for (size_t i = 0; i < plain.row.curve.size(); ++i) EXPECT_EQ(whole.row.curve[i].loss, plain.row.curve[i].loss);
    std::set<int64_t> kept;
    const int64_t reads_per_step = way.devices == 2 ? 1 : 2;  // reads of the last rank: one per micro-batch
    for (int64_t reads = 2; reads < reads_per_step * (kSteps - 1); reads += reads_per_step + 1) {
      SCOPED_TRACE(reads);
      auto broken = std::make_shared<MemoryDataset>(210, 1, image);
      broken->fail_after = reads;
      const Outcome before = until_a_rank_fails(way, folder("cut"), with(broken, data.test));
      kept.insert(expect_nothing_is_lost(way, before, folder("cut"), whole));
      fs::remove_all(folder("cut"));
    }
    EXPECT_GT(kept.size(), 5u);
    fs::remove_all(folder("whole"));
  }
}

TEST_F(ProcessResume, AnEvaluationThatARankDidNotFinishIsDoneAnew) {
  experiment.elastic = true;
  const Way way{"data", 2};
  const Outcome whole = as_processes(way, folder("whole"));
  ASSERT_EQ(whole.row.evaluations.size(), 4u);
  std::set<int64_t> kept;
  for (int64_t reads = 1; reads <= 14; ++reads) {
    SCOPED_TRACE(reads);
    auto broken = std::make_shared<MemoryDataset>(90, 2);
    broken->fail_after = reads;
    const Outcome before = until_a_rank_fails(way, folder("cut"), with(data.train, broken));
    kept.insert(expect_nothing_is_lost(way, before, folder("cut"), whole));
    fs::remove_all(folder("cut"));
  }
  EXPECT_THAT(kept, ElementsAre(4, 8, 12));
}

/// Rank 0 holds only a part of the state, so it cannot write a checkpoint without the other ranks.
TEST_F(ProcessResume, OtherRunsResumeFromTheLastCheckpoint) {
  auto broken = std::make_shared<MemoryDataset>(210, 1);
  broken->fail_after = 9;
  for (const auto& [plan, elastic, step] : {std::tuple{"data", false, kEvery},
                                            {"data", true, int64_t{9}},
                                            {"zero1", true, kEvery},
                                            {"pipeline=2,micro_batches=2", true, int64_t{0}}}) {
    SCOPED_TRACE(plan);
    if (step == 0) broken->fail_after = 6;  // each micro-batch is read once
    broken->gets = 0;
    experiment.elastic = elastic;
    until_a_rank_fails({plan, 2}, folder("cut"), with(broken, data.test));
    const std::vector<FoundCheckpoint> found = find_checkpoints(folder("cut"));
    const int64_t last = found.empty() ? 0 : found.back().step;
    EXPECT_LE(last, step);
    EXPECT_GE(last, step == 9 ? 8 : step)
        << "of a step that the last rank has been through, rank 0 may be in the middle";
    fs::remove_all(folder("cut"));
  }
}

}  // namespace
}  // namespace trireme::test_support
