// Runs that resume from a checkpoint: under the same plan bit for bit the uninterrupted run, under any other plan its
// curve.
#include "checkpoint/resume.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "../base/expect_error.h"
#include "../base/faulty_file_system.h"
#include "checkpoint/checkpoint_folder.h"
#include "experiment/make_plan.h"
#include "support/device_under_test.h"
#include "tiny_training.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 16, kEvery = 6,
                  kCut = 6;  // steps; checkpoints after 6 (in the middle of an epoch), 12 and 16

/// Small images; the class is the brightest quarter.
class Quarters final : public Dataset {
 public:
  Quarters(int64_t size, uint64_t seed) : size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {3, 8, 8}; }
  int64_t classes() const override { return 4; }
  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    const auto n = int64_t(indices.size());
    Samples samples{at::empty({n, 3, 8, 8}), at::empty({n}, at::kLong)};
    Philox random(random_key(seed_, "quarters"));
    float* pixel = samples.data.data_ptr<float>();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = indices[size_t(i)], quarter = index % 4;
      samples.target.data_ptr<int64_t>()[i] = quarter;
      for (int64_t k = 0; k < 192; ++k)
        *pixel++ =
            float(random.normal(uint64_t(index * 192 + k))) + ((k / 8 % 8) / 4 * 2 + k % 8 / 4 == quarter ? 1.f : 0.f);
    }
    return samples;
  }

 private:
  int64_t size_;
  uint64_t seed_;
};

struct Recorder : TrainObserver {
  std::vector<Weights> weights;
  std::vector<std::string> notices;
  void on_weights(const Weights& trained) override { weights.push_back(trained); }
  void on_notice(const std::string& line) override { notices.push_back(line); }
};

struct Outcome {
  RunResult row;
  TensorMap weights;
  std::vector<std::string> notices;
};

class Resuming : public TinyTraining {
 protected:
  Resuming() {
    experiment.length = {double(kSteps), Length::Unit::steps};
    experiment.evaluate_every = {4, Length::Unit::steps};
    experiment.optimizer = {.kind = &kAdamW, .learning_rate = 0.01, .weight_decay = 0.01, .epsilon = 1e-3, .ema = 0.9};
    experiment.schedule.kind = LearningRateSchedule::Kind::cosine;
    experiment.schedule.warmup = {3, Length::Unit::steps};
    experiment.clip_norm = 1;
    experiment.checkpoint = {.every = {double(kEvery), Length::Unit::steps},
                             .keep = 0,
                             .best = {},
                             .folder = {},
                             .where = "tiny.toml: checkpoint"};
    if (device_under_test() == "strict") experiment.device = c10::DeviceType::PrivateUse1;
    if (device_under_test() == "cuda") experiment.device = c10::DeviceType::CUDA;
    fs::create_directories(root_);
  }
  ~Resuming() override { fs::remove_all(root_); }

  void use_images() {
    data.train = std::make_shared<Quarters>(84, 1);
    data.test = std::make_shared<Quarters>(40, 2);
    experiment.batch = 8;
    experiment.model_name = "cifar-resnet18";
    experiment.model_options = {{"width", 4}};
  }

  /// `folder`: for checkpoints; empty: writes none. `from`: checkpoint to resume from; empty: begins anew.
  Outcome run(const std::string& plan, int devices, const fs::path& folder, const fs::path& from = {},
              FileSystem* files = nullptr) {
    CheckpointUse use{.folder = folder, .resumed = {}, .files = files};
    if (!from.empty()) use.resumed = open_resumption(from, experiment, build_model(experiment, data), data).checkpoint;
    return run_with(std::move(use), plan, devices);
  }
  /// Begins with the state of the newest checkpoint in that folder.
  Outcome begin_with(const fs::path& from, const std::string& plan, int devices) {
    return run_with({.folder = {}, .resumed = start(from).checkpoint, .files = nullptr}, plan, devices);
  }
  Resumption start(const fs::path& from) { return open_start(from, experiment, build_model(experiment, data)); }

  Outcome run_with(CheckpointUse use, const std::string& plan, int devices) {
    const Model model = build_model(experiment, data);
    Recorder recorder;
    Outcome outcome;
    outcome.row = train(experiment, model, data, make_plan(plan, experiment, model, devices), recorder, interrupted,
                        nullptr, std::move(use));
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    EXPECT_EQ(recorder.weights.size(), 1u);
    if (!recorder.weights.empty()) outcome.weights = recorder.weights[0].tensors;
    outcome.notices = recorder.notices;
    return outcome;
  }
  fs::path folder(const std::string& name) const { return root_ / name; }
  fs::path cut(const std::string& name) const { return root_ / name / checkpoint_name(kCut); }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("resume_test." + std::to_string(::getpid()));
};

/// Expects that `resumed` equals `whole` from step kCut on, within `tolerance`; 0: bit for bit.
void expect_continued(const Outcome& resumed, const Outcome& whole, double tolerance) {
  const auto expect_near = [&](double a, double b, const std::string& what) {
    if (tolerance == 0) {
      EXPECT_EQ(a, b) << what;
    } else {
      EXPECT_LE(std::abs(a - b), tolerance * std::max(1.0, std::abs(b))) << what;
    }
  };
  ASSERT_EQ(whole.row.curve.size(), size_t(kSteps));
  ASSERT_EQ(resumed.row.curve.size(), size_t(kSteps - kCut));
  for (size_t i = 0; i < resumed.row.curve.size(); ++i) {
    const CurvePoint &a = resumed.row.curve[i], &b = whole.row.curve[i + kCut];
    EXPECT_EQ(std::pair(a.step, a.samples), std::pair(b.step, b.samples));
    EXPECT_GT(a.seconds, whole.row.curve[kCut - 1].seconds);
    ASSERT_TRUE(std::isfinite(b.loss));
    expect_near(a.loss, b.loss, "loss of step " + std::to_string(b.step));
  }
  const std::vector<EvaluationPoint>&some = resumed.row.evaluations, &all = whole.row.evaluations;
  ASSERT_EQ(some.size() + 1, all.size());  // evaluations after 4, 8, 12 and 16
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(std::tuple(some[i].step, some[i].samples, some[i].epoch),
              std::tuple(all[i + 1].step, all[i + 1].samples, all[i + 1].epoch));
    expect_near(some[i].loss, all[i + 1].loss, "test loss");
  }
  ASSERT_EQ(resumed.weights.size(), whole.weights.size());
  for (const auto& [name, tensor] : whole.weights) {
    const at::Tensor& other = resumed.weights.at(name);
    const double scale = std::max(1e-6, tensor.abs().max().item<double>()),
                 error = (other - tensor).abs().max().item<double>();
    EXPECT_TRUE(tolerance == 0 ? at::equal(other, tensor) : error <= tolerance * scale)
        << name << ": " << error / scale;
  }
}

struct Way {
  std::string plan;
  int devices;
  bool private_replicas = false;
};

TEST_F(Resuming, UnderTheSamePlanIsBitForBitTheUninterruptedRun) {
  for (const Way& way : {Way{"single", 1},
                         {"data", 2},
                         {"data", 3, true},
                         {"tensor", 2},
                         {"data=2,sharding=zero1", 2, true},
                         {"pipeline=2,micro_batches=2", 2},
                         {"data=2,tensor=2", 4}}) {
    SCOPED_TRACE(way.plan);
    experiment.private_replicas = way.private_replicas;
    const Outcome whole = run(way.plan, way.devices, folder("whole"));
    const Outcome untouched = run(way.plan, way.devices, {});
    for (size_t i = 0; i < whole.row.curve.size(); ++i)
      EXPECT_EQ(whole.row.curve[i].loss, untouched.row.curve[i].loss) << "checkpoints change the run";
    ASSERT_TRUE(whole.row.checkpoints);
    EXPECT_EQ(
        std::tuple(whole.row.checkpoints->written, whole.row.checkpoints->failed, whole.row.checkpoints->newest_step),
        std::tuple(3, 0, kSteps));
    EXPECT_GT(whole.row.checkpoints->bytes, 0);
    EXPECT_GT(whole.row.checkpoints->stall_seconds, 0);
    EXPECT_FALSE(untouched.row.checkpoints);
    expect_continued(run(way.plan, way.devices, {}, cut("whole")), whole, 0);
    fs::remove_all(folder("whole"));
  }
}

/// Frozen parameters have no average of their own, also after a resume.
TEST_F(Resuming, WithFrozenParametersAndAverages) {
  experiment.frozen = {build_model(experiment, data).parameters().front().name};
  for (const Way& way :
       {Way{"data", 2, true}, {"data=2,sharding=zero1", 2, true}, {"data=2,sharding=zero3", 2, true}}) {
    SCOPED_TRACE(way.plan);
    experiment.private_replicas = way.private_replicas;
    const Outcome whole = run(way.plan, way.devices, folder("frozen"));
    expect_continued(run(way.plan, way.devices, {}, cut("frozen")), whole, 0);
    fs::remove_all(folder("frozen"));
  }
}

/// A resumed run writes the same checkpoints as the uninterrupted run.
TEST_F(Resuming, CheckpointsOfAResumedRunAreThoseOfTheUninterruptedOne) {
  run("data", 2, folder("whole"));
  run("data", 2, folder("second"), cut("whole"));
  const Model model = build_model(experiment, data);
  for (int64_t step : {12, int(kSteps)}) {
    const Checkpoint a = read_checkpoint(folder("whole") / checkpoint_name(step), model),
                     b = read_checkpoint(folder("second") / checkpoint_name(step), model);
    EXPECT_EQ(std::tuple(a.index.samples, a.index.epoch, a.index.loss, a.index.updates),
              std::tuple(b.index.samples, b.index.epoch, b.index.loss, b.index.updates));
    for (const auto& [name, tensor] : a.state.weights) EXPECT_TRUE(at::equal(tensor, b.state.weights.at(name))) << name;
    for (const auto& [name, states] : a.state.optimizer)
      for (size_t k = 0; k < states.size(); ++k)
        EXPECT_TRUE(at::equal(states[k], b.state.optimizer.at(name)[k])) << name;
  }
  EXPECT_FALSE(fs::exists(folder("second") / checkpoint_name(kCut)));
}

/// Changes the plan and the number of workers, in double precision.
TEST_F(Resuming, UnderOtherPlansTheCurveContinues) {
  experiment.precision = Precision::fp64;
  experiment.batch_norm = BatchNormScope::global;
  const auto check = [&](const Way& from, const std::vector<Way>& ways) {
    experiment.private_replicas = from.private_replicas;
    const Outcome whole = run(from.plan, from.devices, folder("from"));
    for (const Way& way : ways) {
      SCOPED_TRACE(experiment.model_name + " under " + way.plan);
      experiment.private_replicas = way.private_replicas;
      expect_continued(run(way.plan, way.devices, {}, cut("from")), whole, 1e-9);
    }
    fs::remove_all(folder("from"));
  };
  const std::vector<Way> others{{"gpipe", 4},           {"tensor", 2}, {"data=3,sharding=zero1", 3, true},
                                {"data=2,tensor=2", 4}, {"single", 1}, {"data=2,pipeline=2,micro_batches=2", 4}};
  experiment.model_options = {{"hidden", 16}, {"depth", 4}};
  check({"data", 2}, others);
  check({"data=2,sharding=zero3", 2, true}, {{"data", 3}, {"pipeline=2,micro_batches=2", 2}});
  use_text();
  check({"data", 2}, {{"tensor", 2}, {"pipeline=2,micro_batches=2", 2}, {"single", 1}});
  use_images();
  experiment.optimizer = {.learning_rate = 0.05, .momentum = 0.9, .ema = 0.8};
  check({"data", 2}, {{"tensor", 2}, {"single", 1}});
}

TEST_F(Resuming, StreamsAndBatchNormAreBitForBitUnderTheSamePlan) {
  use_text();
  const Outcome text = run("data", 2, folder("text"));
  expect_continued(run("data", 2, {}, cut("text")), text, 0);
  use_images();
  experiment.optimizer = {.learning_rate = 0.05, .momentum = 0.9};
  const Outcome images = run("data", 2, folder("images"));
  expect_continued(run("data", 2, {}, cut("images")), images, 0);
}

TEST_F(Resuming, Bfloat16KeepsItsMasterWeights) {
  experiment.precision = Precision::bf16;
  const Outcome whole = run("data", 2, folder("whole"));
  expect_continued(run("data", 2, {}, cut("whole")), whole, 0);
  experiment.private_replicas = true;
  expect_continued(run("data=2,sharding=zero1", 2, {}, cut("whole")), whole, 0.02);
}

TEST_F(Resuming, TheNewestWholeOneIsTaken) {
  fs::create_directory(folder("run"));
  run("data", 2, folder("run") / kCheckpointFolder);
  const Model model = build_model(experiment, data);
  experiment.length = {40, Length::Unit::steps};
  const auto step_taken = [&](const fs::path& from) {
    return open_resumption(from, experiment, model, data).checkpoint.index.step;
  };
  EXPECT_EQ(step_taken(folder("run")), kSteps);
  const auto damage = [&](int64_t step) {
    const fs::path file =
        folder("run") / kCheckpointFolder / checkpoint_name(step) / "model-00001-of-00001.safetensors";
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-1, std::ios::end).put('\x7f');
    return file.string();
  };
  const std::string newest = damage(kSteps);
  const Resumption older = open_resumption(folder("run"), experiment, model, data);
  EXPECT_EQ(older.checkpoint.index.step, 12);
  ASSERT_EQ(older.notices.size(), 2u);  // one of them: the length differs
  for (const std::string& words : {newest, std::string("CRC-32"), std::string("resumes from step-00000012")})
    EXPECT_THAT(older.notices[0], HasSubstr(words));
  expect_error(Blame::user, {newest, "CRC-32"},
               [&] { step_taken(folder("run") / kCheckpointFolder / checkpoint_name(kSteps)); });
  damage(12);
  damage(6);
  expect_error(Blame::user, {"none of 3 checkpoints is undamaged"}, [&] { step_taken(folder("run")); });
  EXPECT_FALSE(fs::exists(folder("run") / kCheckpointFolder / "step-00000018"));
}

TEST_F(Resuming, AFullDiskDoesNotEndTheRunUnlessAsked) {
  for (const char* name : {"removed", "removed too"}) fs::create_directory(folder(name));
  FaultyFileSystem counting(folder("removed"));
  run("data", 2, folder("counted"), {}, &counting);
  const int64_t in_the_second = counting.operations() / 2;

  FaultyFileSystem full(folder("removed"));
  full.fail_at(in_the_second, FaultyFileSystem::Fault::full_disk);
  const Outcome outcome = run("data", 2, folder("full"), {}, &full);
  EXPECT_EQ(std::tuple(outcome.row.checkpoints->written, outcome.row.checkpoints->failed,
                       outcome.row.checkpoints->newest_step),
            std::tuple(1, 2, kEvery));
  ASSERT_EQ(outcome.notices.size(), 2u);
  for (const char* words : {"after step 12 was not written", "No space left", "the newest one is after step 6"})
    EXPECT_THAT(outcome.notices[0], HasSubstr(words));
  EXPECT_THAT(outcome.row.warnings, ::testing::Contains(outcome.notices[0]));
  EXPECT_EQ(names_in(folder("full")), std::vector<std::string>{checkpoint_name(6)});
  verify_checkpoint(folder("full") / checkpoint_name(6));

  experiment.checkpoint.ends_on_failure = true;
  experiment.length = {1000, Length::Unit::epochs};
  experiment.schedule = {};
  FaultyFileSystem full_again(folder("removed too"));
  full_again.fail_at(in_the_second, FaultyFileSystem::Fault::full_disk);
  const Model model = build_model(experiment, data);
  Recorder recorder;
  const RunResult row = train(experiment, model, data, make_plan("data", experiment, model, 2), recorder, interrupted,
                              nullptr, {.folder = folder("ended"), .resumed = {}, .files = &full_again});
  EXPECT_EQ(row.status, RunStatus::failed);
  EXPECT_THAT(row.reason, HasSubstr("after step 12 was not written"));
}

TEST_F(Resuming, AnInterruptedRunLeavesACheckpointOfTheStepItEndedIn) {
  const Outcome whole = run("data", 2, folder("whole"));
  train_set->pause = std::chrono::milliseconds(20);
  struct Impatient : TrainObserver {
    std::atomic<bool>* interrupted = nullptr;
    void on_step(const StepReport& report) override { *interrupted = report.point.step >= 7; }
  } observer;
  observer.interrupted = &interrupted;
  const Model model = build_model(experiment, data);
  const RunResult row = train(experiment, model, data, make_plan("data", experiment, model, 2), observer, interrupted,
                              nullptr, {.folder = folder("cut"), .resumed = {}, .files = nullptr});
  interrupted = false;
  EXPECT_EQ(row.status, RunStatus::interrupted);
  ASSERT_TRUE(row.checkpoints);
  const int64_t last = row.curve.back().step;
  EXPECT_GE(last, 7);
  ASSERT_LT(last, kSteps);
  EXPECT_EQ(row.checkpoints->newest_step, last);
  const Outcome resumed = run("data", 2, {}, folder("cut"));
  ASSERT_EQ(resumed.row.curve.size(), size_t(kSteps - last));
  for (size_t i = 0; i < resumed.row.curve.size(); ++i)
    EXPECT_EQ(resumed.row.curve[i].loss, whole.row.curve[i + size_t(last)].loss);
  for (const auto& [name, tensor] : whole.weights) EXPECT_TRUE(at::equal(tensor, resumed.weights.at(name))) << name;
}

/// A checkpoint with a weight that is not finite must not replace an older one.
TEST_F(Resuming, ADivergedRunKeepsItsLastGoodCheckpoint) {
  experiment.optimizer = {.learning_rate = 1e38};
  experiment.schedule = {};
  experiment.clip_norm = 0;
  experiment.checkpoint.every = {1, Length::Unit::steps};
  experiment.checkpoint.keep = 1;
  const Model model = build_model(experiment, data);
  Recorder recorder;
  const RunResult row = train(experiment, model, data, make_plan("single", experiment, model, 1), recorder, interrupted,
                              nullptr, {.folder = folder("diverged"), .resumed = {}, .files = nullptr});
  EXPECT_EQ(row.status, RunStatus::failed);
  EXPECT_THAT(row.reason, HasSubstr("diverged"));
  ASSERT_FALSE(recorder.notices.empty());
  EXPECT_THAT(recorder.notices.back(), HasSubstr("is not finite"));
  for (const FoundCheckpoint& found : find_checkpoints(folder("diverged")))
    EXPECT_EQ(not_finite(read_checkpoint(found.path, model).state), "") << found.path;
}

TEST_F(Resuming, SettingsThatCheckpointsCannotHave) {
  check_checkpoints(experiment, data);
  experiment.checkpoint.best = "accuracy";
  expect_error(Blame::user, {"best = accuracy", "every 4 steps", "every 6", "a multiple of evaluate_every"},
               [&] { check_checkpoints(experiment, data); });
  experiment.checkpoint.best = "perplexity";
  expect_error(Blame::user, {"best = perplexity", "classification", "loss, accuracy"},
               [&] { check_checkpoints(experiment, data); });
  experiment.checkpoint.best = "accuracy";
  experiment.evaluate_every = {3, Length::Unit::steps};
  check_checkpoints(experiment, data);
}

TEST_F(Resuming, WhatDoesNotFitIsRefused) {
  run("data", 2, folder("whole"));
  const RunSpec good = experiment;
  const auto expect_refused = [&](const std::vector<std::string>& parts) {
    expect_error(Blame::user, parts,
                 [&] { open_resumption(cut("whole"), experiment, build_model(experiment, data), data); });
    experiment = good;
  };
  experiment.seed = 2;
  expect_refused({"seed = 1", "has 2", "start a new run"});
  experiment.batch = 10;
  expect_refused({"batch = 20", "has 10"});
  experiment.optimizer.kind = &kSgd;
  expect_refused({"optimizer = adamw", "has sgd"});
  experiment.optimizer.ema = 0;
  expect_refused({"optimizer.ema = 0.9", "has 0"});
  experiment.precision = Precision::fp64;
  expect_refused({"numbers = float32", "has float64"});
  experiment.model_options = {{"hidden", 33}};
  expect_refused({"is of model mlp", "other layers"});
  experiment.length = {double(kCut), Length::Unit::steps};
  expect_refused({"6 steps are done", "6 steps in all", "--steps 7"});
  experiment.optimizer.learning_rate = 0.5;
  const Resumption other = open_resumption(cut("whole"), experiment, build_model(experiment, data), data);
  ASSERT_EQ(other.notices.size(), 1u);
  EXPECT_THAT(other.notices[0], HasSubstr("optimizer.learning_rate 0.5, was 0.01"));
}

/// Whole epochs of one batch: every step has the same samples, so that runs one after the other are one run.
class Starting : public Resuming {
 protected:
  Starting() {
    experiment.precision = Precision::fp64;
    experiment.batch = train_set->size();
    experiment.schedule = {};
    experiment.length = {6, Length::Unit::steps};
    experiment.evaluate_every = {100, Length::Unit::steps};
    experiment.checkpoint.every = {6, Length::Unit::steps};
  }
};

TEST_F(Starting, GoesOnWithWeightsAndOptimizer) {
  for (const auto* kind : {&kSgd, &kAdamW}) {
    SCOPED_TRACE(kind->name);
    experiment.optimizer = {.kind = kind, .learning_rate = 0.01, .momentum = kind == &kSgd ? 0.9 : 0, .ema = 0.9};
    experiment.length.count = 12;
    const Outcome whole = run("single", 1, fs::path());
    experiment.length.count = 6;
    const std::string name = std::string("first ") + kind->name;
    const Outcome first = run("data", 2, folder(name));
    for (const auto& [plan, devices] : {std::pair("single", 1), std::pair("data", 2), std::pair("tensor", 2)}) {
      SCOPED_TRACE(plan);
      const Outcome second = begin_with(folder(name), plan, devices);
      ASSERT_EQ(second.row.curve.size(), 6u);
      EXPECT_EQ(second.row.curve.front().step, 1);
      for (const auto& [parameter, values] : whole.weights)
        EXPECT_LT((second.weights.at(parameter) - values).abs().max().item<double>(), 1e-10) << parameter;
      EXPECT_NEAR(second.row.curve.back().loss, whole.row.curve.back().loss, 1e-10);
    }
  }
}

TEST_F(Starting, MayChangeBatchDataAndFrozenParameters) {
  run("single", 1, folder("first"));
  experiment.batch = 30;
  data.train = std::make_shared<MemoryDataset>(90, 3);
  const Model model = build_model(experiment, data);
  experiment.frozen = {model.parameters().front().name};
  const Resumption frozen = start(folder("first"));
  EXPECT_THAT(frozen.notices, ElementsAre(HasSubstr("begins with the state after step 6")));
  EXPECT_EQ(frozen.checkpoint.state.updates, 6);
  EXPECT_FALSE(frozen.checkpoint.state.optimizer.contains(experiment.frozen.front()));
  experiment.checkpoint.every = {6, Length::Unit::steps};
  const Outcome second =
      run_with({.folder = folder("second"), .resumed = frozen.checkpoint, .files = nullptr}, "data", 2);
  EXPECT_EQ(second.row.curve.back().samples, 180);
  const Checkpoint before = open_start(folder("first"), experiment, model).checkpoint;
  EXPECT_TRUE(at::equal(second.weights.at(experiment.frozen.front()).to(at::kDouble),
                        before.state.weights.at(experiment.frozen.front()).to(at::kDouble)))
      << "what is frozen stays";
  const std::string thawed = std::exchange(experiment.frozen, {}).front();
  const Resumption all = start(folder("second"));
  EXPECT_THAT(all.notices, ElementsAre(HasSubstr("begins with"), AllOf(HasSubstr("begins anew"), HasSubstr(thawed))));
  EXPECT_EQ(all.checkpoint.state.updates, 0);
  EXPECT_TRUE(all.checkpoint.state.optimizer.empty());
  begin_with(folder("second"), "single", 1);
}

TEST_F(Starting, AnotherOptimizerBeginsAnewAndAnotherModelIsRefused) {
  run("single", 1, folder("first"));
  experiment.optimizer = {.kind = &kSgd, .learning_rate = 0.01};
  EXPECT_THAT(start(folder("first")).notices, ElementsAre(HasSubstr("begins with"), HasSubstr("it is of adamw")));
  experiment.model_options = {{"hidden", 16}};
  expect_error(Blame::user, {"another shape of", "model.weights"}, [&] { start(folder("first")); });
  experiment.model_options = {{"hidden", 32}};
  experiment.precision = Precision::fp32;
  expect_error(Blame::user, {"numbers = float64", "float32"}, [&] { start(folder("first")); });
}

}  // namespace
}  // namespace trireme::test_support
