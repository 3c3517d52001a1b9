// Which checkpoints a run may resume or begin with, and what it takes from them. Nothing is trained here.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "../base/expect_error.h"
#include "../train/tiny_training.h"
#include "base/random.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/data_fingerprint.h"
#include "checkpoint/resume.h"
#include "data/text/text_stream.h"
#include "program/graph.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 16;

class Resumptions : public TinyTraining {
 public:
  ~Resumptions() override { fs::remove_all(run_); }

 protected:
  Resumptions() {
    experiment.length = {double(kSteps), Length::Unit::steps};
    fs::create_directories(folder_);
  }

  /// Writes what a run of the experiment could have written after this step. `without`: a setting that it leaves out.
  void write(int64_t step, const std::map<std::string, std::string>& agreement = {}, const std::string& without = "") {
    const Model model = build_model(experiment, data);
    TrainingState state;
    state.updates = step;
    for (const ParameterSpec& spec : model.parameters()) {
      state.weights[spec.name] = at::ones(spec.shape);
      const bool trained = !freezes(experiment.frozen, spec.name);
      for (int k = 0; trained && k < optimizer_state_count(experiment.optimizer); ++k)
        state.optimizer[spec.name].push_back(at::ones(spec.shape));
    }
    state.agreement_texts = agreement;
    fs::remove_all(folder_ / checkpoint_name(step));
    std::map<std::string, std::string> settings = curve_settings(experiment, model, data, kSteps);
    if (!fingerprint_.empty()) settings[kDataSetting] = fingerprint_;
    settings.erase(without);
    write_checkpoint(real_file_system(), folder_, {.step = step, .plan = "single", .settings = settings}, model, state);
  }
  Resumption resumed() { return open_resumption(run_, experiment, build_model(experiment, data), data); }
  Resumption started() { return open_start(run_, experiment, build_model(experiment, data)); }
  void expect_refused(const std::vector<std::string>& parts) {
    expect_error(Blame::user, parts, [&] { resumed(); });
  }

  const fs::path run_ = fs::path(::testing::TempDir()) / ("resumption_test." + std::to_string(::getpid()));
  const fs::path folder_ = run_ / kCheckpointFolder;
  std::string fingerprint_ = {};  ///< of the data, in a checkpoint that is written; empty: it has none
};

/// Samples that a test gives.
class GivenSamples final : public Dataset {
 public:
  GivenSamples(at::Tensor inputs, at::Tensor targets, bool decodes = false)
      : inputs_(std::move(inputs)), targets_(std::move(targets)), decodes_(decodes) {}
  int64_t size() const override { return inputs_.size(0); }
  Shape sample_shape() const override { return {inputs_.size(1)}; }
  Shape target_shape() const override { return {1}; }
  LearningTask task() const override { return LearningTask::regression; }
  int64_t classes() const override { return 1; }
  bool decodes() const override { return decodes_; }
  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    const at::Tensor chosen = at::tensor(at::IntArrayRef(indices.data(), indices.size()), at::kLong);
    read += int64_t(indices.size());
    return {inputs_.index_select(0, chosen), targets_.index_select(0, chosen)};
  }

  mutable int64_t read = 0;

 private:
  at::Tensor inputs_, targets_;
  bool decodes_;
};

at::Tensor noise(int64_t rows, int64_t columns) {
  at::Tensor values = at::empty({rows, columns});
  const Philox random(7);
  for (int64_t i = 0; i < rows * columns; ++i) values.data_ptr<float>()[i] = float(random.normal(uint64_t(i)));
  return values;
}

TEST(DataFingerprint, IsOfAllValuesOfASmallSet) {
  const at::Tensor inputs = noise(20'000, 14), targets = noise(20'000, 1);
  const std::string whole = data_fingerprint(GivenSamples(inputs, targets));
  EXPECT_THAT(whole, HasSubstr("20000 of 20000 samples"));
  EXPECT_TRUE(is_same_data(whole, data_fingerprint(GivenSamples(inputs * (1 + 1e-7), targets)))) << "rounding";
  at::Tensor one_value = inputs.clone(), swapped = inputs.clone();
  one_value[12'345][3] += 1;
  swapped[7].copy_(inputs[8]);
  swapped[8].copy_(inputs[7]);
  for (const at::Tensor& other : {one_value, swapped, inputs * 1.001})
    EXPECT_FALSE(is_same_data(whole, data_fingerprint(GivenSamples(other, targets))));
  at::Tensor one_target = targets.clone();
  one_target[12'009][0] += 1e-3;
  EXPECT_FALSE(is_same_data(whole, data_fingerprint(GivenSamples(inputs, one_target))));
  EXPECT_FALSE(is_same_data(whole, data_fingerprint(GivenSamples(inputs, targets / 100))));
  EXPECT_FALSE(is_same_data(whole, data_fingerprint(GivenSamples(inputs.slice(0, 1), targets.slice(0, 1)))));
  EXPECT_FALSE(is_same_data(whole, "unreadable"));
}

TEST(DataFingerprint, ReadsLittleOfALargeSet) {
  const GivenSamples large(noise(3000, 2000), noise(3000, 1)), files(noise(3000, 20), noise(3000, 1), /*decodes=*/true);
  EXPECT_THAT(data_fingerprint(large), HasSubstr("1048 of 3000 samples"));
  EXPECT_EQ(large.read, 1048);
  const std::string decoded = data_fingerprint(files);
  EXPECT_THAT(decoded, HasSubstr("16 of 3000 decoded samples"));
  EXPECT_EQ(files.read, 16);
  EXPECT_TRUE(is_same_data(decoded, data_fingerprint(GivenSamples(noise(3000, 20) + 1e-3, noise(3000, 1), true))));
  EXPECT_FALSE(is_same_data(decoded, data_fingerprint(GivenSamples(-noise(3000, 20), noise(3000, 1), true))));
}

TEST_F(Resumptions, OtherDataOfEqualSizeAreRefused) {
  fingerprint_ = data_fingerprint(*data.train);
  write(6);
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty());
  data.train = std::make_shared<MemoryDataset>(210, 3);
  expect_refused({"the training data have changed", fingerprint_, data_fingerprint(*data.train), "[data]"});
  experiment.own_data = true;
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty()) << "the clients have data of their own";
  experiment.own_data = false;
  fingerprint_.clear();
  write(6);
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty()) << "a checkpoint of an earlier version";
}

TEST_F(Resumptions, StateTensorsAreMatchedByWhatTheyAre) {
  struct Change {
    OptimizerConfig from, to;
    std::string key, was, is;
  };
  for (const Change& c : {Change{{.momentum = 0.9}, {.momentum = 0, .ema = 0.999}, "optimizer.ema", "0", "0.999"},
                          Change{{.kind = &kRmsprop, .centered = true},
                                 {.kind = &kRmsprop, .momentum = 0.9},
                                 "optimizer.centered",
                                 "1",
                                 "0"},
                          Change{{.kind = &kAdamW, .ema = 0.9}, {.kind = &kAdamW}, "optimizer.ema", "0.9", "0"}}) {
    experiment.optimizer = c.from;
    write(6);
    EXPECT_THAT(resumed().notices, ::testing::IsEmpty());
    experiment.optimizer = c.to;
    expect_refused({fmt::format("{} = {}", c.key, c.was), "has " + c.is});
    const Resumption start = started();
    EXPECT_TRUE(start.checkpoint.state.optimizer.empty()) << c.key;
    EXPECT_THAT(start.notices, Contains(HasSubstr("the optimizer's state begins anew")));
  }
  experiment.optimizer = {.momentum = 0.9};
  write(6);
  experiment.optimizer.momentum = 0.8;
  EXPECT_THAT(resumed().notices, Contains(HasSubstr("optimizer.momentum 0.8, was 0.9")));
  EXPECT_EQ(started().checkpoint.state.updates, 6);
}

TEST_F(Resumptions, StepsOfEarlierVersionsOnStreamsMeanTheSameSamplesInTheFirstEpochOnly) {
  data.train = data.test = std::make_shared<TextStream>(std::vector<int32_t>(10 * 5 + 1, 1), 3, 5);  // 10 windows
  experiment.model_name = "lstm-lm";
  experiment.model_options = {{"width", 4}};
  experiment.batch = 4;  // an epoch: two steps of four rows and one of two
  write(8);
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty());
  for (const int64_t step : {1, 2}) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    write(step, {}, kStreamSetting);
    EXPECT_EQ(resumed().checkpoint.index.step, step);
  }
  write(3, {}, kStreamSetting);
  expect_refused({"step-00000003", "after step 3, in epochs of 2 steps", "last 2 samples", "--start-from"});
  EXPECT_EQ(started().checkpoint.index.step, 0);
  experiment.batch = 5;  // divides the windows: the epochs have the same steps as before
  write(9, {}, kStreamSetting);
  EXPECT_EQ(resumed().checkpoint.index.step, 9);
}

TEST_F(Resumptions, NewlyTrainedParametersBeginTheOptimizerAnew) {
  experiment.optimizer = {.kind = &kAdamW, .ema = 0.9};
  experiment.frozen = {"fc1.*"};
  write(6);
  EXPECT_EQ(resumed().checkpoint.state.updates, 6);
  experiment.frozen = {"fc1.*", "fc2.bias"};
  EXPECT_EQ(resumed().checkpoint.state.updates, 6) << "less is trained";
  experiment.frozen = {};
  const Resumption all = resumed();
  EXPECT_THAT(all.notices, Contains(AllOf(HasSubstr("begins anew"), HasSubstr("fc1."))));
  EXPECT_TRUE(all.checkpoint.state.optimizer.empty());
  EXPECT_EQ(all.checkpoint.state.updates, 0);
  EXPECT_EQ(all.checkpoint.index.step, 6) << "the run goes on where it was";

  experiment.frozen = {"fc1.*"};
  write(6, {{"shared", "{}"}, {"0", "{}"}});
  experiment.frozen = {};
  expect_refused({"frozen = [fc1.*]", "replicas' optimizers"});
}

TEST_F(Resumptions, ARunCannotBeginWithOneOfSeveralReplicas) {
  write(6, {{"shared", "{}"}, {"0", "{}"}, {"1", "{}"}});
  expect_error(Blame::user, {"under an update policy", "first replica", "model.weights=FOLDER/weights.safetensors"},
               [&] { started(); });
  write(6, {{"shared", "{}"}});
  EXPECT_TRUE(started().checkpoint.state.agreement_texts.empty()) << "the server's own weights";
}

TEST_F(Resumptions, OptionsOfTheModelMustMatch) {
  data.train = data.test = std::make_shared<TextStream>(std::vector<int32_t>(401, 3), 7, 5);
  experiment.batch = 8;
  experiment.model_name = "gpt2";
  experiment.model_options = {{"layers", 1}, {"width", 8}, {"heads", 2}, {"positions", 8}, {"probability", 0.1}};
  write(6);
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty());
  experiment.model_options["probability"] = 0.2;
  EXPECT_THAT(resumed().notices, Contains(HasSubstr("model.options.probability 0.2, was 0.1")));
  experiment.model_options["heads"] = 4;  // all shapes stay
  expect_refused({"model.options.heads = 2", "has 4"});
  experiment.model_options["heads"] = 2;
  experiment.model_options.erase("probability");
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty()) << "0.1 is the usual value";
}

TEST_F(Resumptions, SharesAndAugmentationAreCompared) {
  experiment.replicas.shares = SampleShares::dirichlet;
  experiment.data.augment = true;
  write(6);
  EXPECT_THAT(resumed().notices, ::testing::IsEmpty());
  experiment.replicas.alpha = 0.1;
  expect_refused({"update.alpha = 0.5", "has 0.1"});
  experiment.replicas.shares = SampleShares::labels;
  expect_refused({"update.shares = dirichlet", "has labels"});
  experiment.replicas.shares = SampleShares::dirichlet;
  experiment.replicas.alpha = 0.5;
  experiment.data.augmentation = Augmentation{.flip = true, .mixup = 0.2};
  EXPECT_THAT(resumed().notices, Contains(AllOf(HasSubstr("data.augmentation"), HasSubstr("mixup 0.2, was standard"))));
}

TEST_F(Resumptions, AModelWithFewerParametersCannotBeginWithAllOfThem) {
  experiment.model_options = {{"hidden", 4}, {"depth", 2}};  // as many as inputs and classes: all layers are alike
  write(6);
  started();
  experiment.model_options["depth"] = 1;
  expect_error(Blame::user, {"its model also has \"fc3.", "model.weights"}, [&] { started(); });
  experiment.model_options["depth"] = 3;
  expect_error(Blame::user, {"its model has no \"fc4.", "model.weights"}, [&] { started(); });
}

TEST_F(Resumptions, ACompleteRunIsNotTrainedAgain) {
  const auto own = [&] { return open_own_resumption(run_, experiment, build_model(experiment, data), data); };
  EXPECT_FALSE(own()) << "it has no checkpoint";
  write(kSteps);
  expect_error(Blame::user, {checkpoint_name(kSteps), "training is complete: 16 steps", "model.safetensors.index.json"},
               [&] { own(); });
  write(6);
  const auto older = own();
  ASSERT_TRUE(older);
  EXPECT_EQ(older->checkpoint.index.step, 6);
  EXPECT_FALSE(fs::exists(folder_ / checkpoint_name(kSteps))) << "it is written again";
}

}  // namespace
}  // namespace trireme::test_support
