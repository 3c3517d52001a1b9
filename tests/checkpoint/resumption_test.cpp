// Which checkpoints a run may resume or begin with, and what it takes from them. Nothing is trained here.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "../base/expect_error.h"
#include "../train/tiny_training.h"
#include "checkpoint/checkpoint_folder.h"
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

  /// Writes what a run of the experiment could have written after this step.
  void write(int64_t step, const std::map<std::string, std::string>& agreement = {}) {
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
    write_checkpoint(real_file_system(), folder_,
                     {.step = step, .plan = "single", .settings = curve_settings(experiment, model, data, kSteps)},
                     model, state);
  }
  Resumption resumed() { return open_resumption(run_, experiment, build_model(experiment, data), data); }
  Resumption started() { return open_start(run_, experiment, build_model(experiment, data)); }
  void expect_refused(const std::vector<std::string>& parts) {
    expect_error(Blame::user, parts, [&] { resumed(); });
  }

  const fs::path run_ = fs::path(::testing::TempDir()) / ("resumption_test." + std::to_string(::getpid()));
  const fs::path folder_ = run_ / kCheckpointFolder;
};

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
