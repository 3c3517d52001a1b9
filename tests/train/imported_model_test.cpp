// A TorchScript file as an experiment's model: its name, training from its values, and messages.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "../base/expect_error.h"
#include "../model/import/script_modules.h"
#include "data/text/text_stream.h"
#include "experiment/batches.h"
#include "experiment/make_plan.h"
#include "experiment/read_experiment.h"
#include "memory_data.h"
#include "model/export/torchscript.h"
#include "train/trainer.h"
#include "train/verify.h"

namespace trireme::test_support {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kNorm = R"(
def forward(self, x: Tensor):
  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, MODE, 0.1, 1e-5, True)
)";
constexpr const char* kForward = R"(
def forward(self, x: Tensor):
  return torch.linear(FUNCTION(torch.linear(self.bn.forward(x), self.first)), self.second)
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

class ImportedModels : public ::testing::Test {
 protected:
  ImportedModels() {
    fs::create_directories(folder_);
    data_.train = std::make_shared<MemoryDataset>(120, 1);
    data_.test = std::make_shared<MemoryDataset>(60, 2);
  }
  ~ImportedModels() override { fs::remove_all(folder_); }

  /// A module with four inputs and `classes` outputs that begins with batch norm.
  torch::jit::Module classifier(int64_t classes = 4, const std::string& mode = "self.training",
                                const std::string& function = "torch.tanh") {
    const Tensors statistics{{"running_mean", at::full({4}, 0.2, at::kDouble)},
                             {"running_var", at::full({4}, 1.5, at::kDouble)}};
    const torch::jit::Module norm =
        make_module(replaced(kNorm, "MODE", mode), {{"weight", {4}}, {"bias", {4}}}, statistics, {}, "BatchNorm");
    return make_module(replaced(kForward, "FUNCTION", function), {{"first", {8, 4}}, {"second", {classes, 8}}}, {},
                       {{"bn", norm}});
  }

  RunSpec read(const std::string& text, std::vector<std::string> set = {}) {
    std::ofstream(folder_ / "own.toml") << text << "\n[data]\nname = \"digits\"\n";
    return RunSpec{read_experiment(folder_ / "own.toml", {.set = std::move(set)})};
  }
  RunSpec experiment_for(const torch::jit::Module& module) {
    module.save((folder_ / "own.pt").string());
    RunSpec e = read("model = \"own.pt\"\nbatch = 24\nbatch_norm = \"global\"");
    e.length = {5, Length::Unit::steps};
    e.optimizer.momentum = 0;
    return e;
  }

  const fs::path folder_ = fs::temp_directory_path() / ("trireme-imported-" + std::to_string(getpid()));
  TaskData data_;
  const std::atomic<bool> interrupted_{false};
  TrainObserver observer_;
};

TEST_F(ImportedModels, AreNamedInOneWordOrInATable) {
  classifier().save((folder_ / "own.pt").string());
  for (const char* text : {"model = \"own.pt\"", "[model]\nname = \"own.pt\""}) {
    const RunSpec e = read(text);
    EXPECT_EQ(e.model_file, folder_ / "own.pt") << "counts from the experiment's folder";
    EXPECT_EQ(e.model_name, "own.pt");
  }
  EXPECT_EQ(read("[model]\nname = \"mlp\"\noptions.hidden = 7", {"model=own.pt"}).model_name, "own.pt");
  EXPECT_EQ(read("model = \"mlp\"").model_name, "mlp");
  EXPECT_TRUE(read("model = \"mlp\"").model_file.empty());
}

TEST_F(ImportedModels, FilesThatAreNotThere) {
  expect_error(Blame::user, {"own.toml:1: model", "no.pt", "there is no file", "torch.jit.script"},
               [&] { read("model = \"no.pt\""); });
  fs::create_directories(folder_ / "folder.pt");
  expect_error(Blame::user, {"own.toml:1: model", "folder.pt is a folder", "name a file"},
               [&] { read("model = \"folder.pt\""); });
  classifier().save((folder_ / "own.pt").string());
  expect_error(Blame::user, {"model.options", "a model in a file has none"},
               [&] { read("[model]\nname = \"own.pt\"\noptions.hidden = 3"); });
}

TEST_F(ImportedModels, OutputsThatDoNotFitTheData) {
  RunSpec e = experiment_for(classifier(/*classes=*/10));
  expect_error(Blame::user, {"own.pt", "its output is [10]", "needs [4]", "a last layer of 4 features"},
               [&] { build_model(e, data_); });
}

/// A vocabulary is often padded, so that a tensor degree divides it.
TEST_F(ImportedModels, OfLanguageMayKnowMoreTokensThanTheData) {
  const std::vector<int32_t> tokens{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6};
  data_.train = data_.test = std::make_shared<TextStream>(tokens, /*vocabulary=*/7, /*window=*/5);
  const auto experiment_with = [&](int64_t known, int64_t guessed) {
    RunSpec e = experiment_for(
        make_module("def forward(self, x: Tensor):\n"
                    "  return torch.linear(torch.embedding(self.table, x, -1, False, False), self.head)\n",
                    {{"table", {known, 4}}, {"head", {guessed, 4}}}));
    e.batch = 2;
    return e;
  };
  RunSpec padded = experiment_with(8, 8);
  const Model model = build_model(padded, data_);
  EXPECT_THAT(padded.model_findings.notes, Contains(HasSubstr("it knows 8 tokens, the data 7")));
  const RunResult row = train(padded, model, data_, make_plan("single", padded, model, 1), observer_, interrupted_);
  EXPECT_EQ(row.status, RunStatus::ok) << row.reason;
  RunSpec exact = experiment_with(7, 7);
  build_model(exact, data_);
  EXPECT_THAT(exact.model_findings.notes, ::testing::Not(Contains(HasSubstr("tokens"))));
  RunSpec small = experiment_with(8, 7);
  data_.train = data_.test = std::make_shared<TextStream>(tokens, /*vocabulary=*/8, /*window=*/5);
  expect_error(Blame::user, {"own.pt", "its output is [5, 7]", "needs [5, 8], or more tokens"},
               [&] { build_model(small, data_); });
  RunSpec smaller = experiment_with(7, 7);  // in the same file
  expect_error(Blame::user, {"own.pt", "index out of range", "knows all tokens of the data set"},
               [&] { build_model(smaller, data_); });
}

/// Losses of plain gradient descent by libtorch on the module, in double, one per step; the last is that of the test
/// set.
std::vector<double> train_module(const torch::jit::Module& original, const RunSpec& e, const TaskData& data,
                                 int64_t steps) {
  torch::jit::Module module = copy_to_run(original, /*training=*/true);
  const auto loss_of = [&](const Dataset& set, const std::vector<int64_t>& indices) {
    const Samples samples = set.get(indices, {});
    return at::cross_entropy_loss(module.forward({samples.data.to(at::kDouble)}).toTensor(), samples.target);
  };
  std::vector<double> losses;
  const Batches batches(e, data);
  const BatchSampler& order = batches.sampler();
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor loss = loss_of(*data.train, order.batch(0, step));
    loss.backward();
    losses.push_back(loss.item<double>());
    const at::NoGradGuard no_grad;
    for (const auto& parameter : module.parameters()) {
      if (!parameter.requires_grad()) continue;
      at::Tensor(parameter).sub_(parameter.grad(), learning_rate_at(e, step, steps, order.steps_per_epoch()));
      parameter.grad().zero_();
    }
  }
  module.eval();
  std::vector<int64_t> all(size_t(data.test->size()));
  std::iota(all.begin(), all.end(), 0);
  losses.push_back(loss_of(*data.test, all).item<double>());
  return losses;
}

TEST_F(ImportedModels, TrainFromTheFilesValuesAsLibtorchDoesUnderEveryPlan) {
  constexpr int64_t kSteps = 5;
  torch::jit::Module module = classifier();
  module.attr("first").toTensor().set_requires_grad(false);
  RunSpec e = experiment_for(module);
  e.precision = Precision::fp64;
  e.length = {kSteps, Length::Unit::steps};
  const Model model = build_model(e, data_);
  EXPECT_THAT(frozen_of(e), ElementsAre("first"));
  const std::vector<double> expected = train_module(module, e, data_, kSteps);
  for (const char* plan : {"single", "data=2", "tensor=2", "pipeline=2,micro_batches=1"}) {
    const int devices = std::string(plan) == "single" ? 1 : 2;
    const RunResult row = train(e, model, data_, make_plan(plan, e, model, devices), observer_, interrupted_);
    ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
    ASSERT_EQ(row.curve.size(), size_t(kSteps));
    for (size_t s = 0; s < size_t(kSteps); ++s)
      EXPECT_NEAR(row.curve[s].loss, expected[s], 1e-10) << plan << ", step " << s;
    EXPECT_NEAR(row.test->loss, expected.back(), 1e-10) << plan << ", by the running statistics";
  }
}

TEST_F(ImportedModels, PassVerification) {
  RunSpec e = experiment_for(classifier());
  e.precision = Precision::fp64;
  const Model model = build_model(e, data_);
  EXPECT_TRUE(verify(e, model, data_, make_plan("data=2", e, model, 2), 3).ok());
}

TEST_F(ImportedModels, NotesAreWarningsOfEveryRow) {
  RunSpec e = experiment_for(classifier(4, /*mode=*/"False"));
  const Model model = build_model(e, data_);
  EXPECT_THAT(e.model_findings.notes, ElementsAre(HasSubstr("fixed to evaluation mode")));
  const RunResult row = train(e, model, data_, make_plan("single", e, model, 1), observer_, interrupted_);
  EXPECT_THAT(row.warnings, Contains(e.model_findings.notes.front()));
}

TEST_F(ImportedModels, PlansKnowWhichGraphTheyAreFor) {
  const auto fingerprint = [&](const torch::jit::Module& module) {
    RunSpec e = experiment_for(module);
    return build_model(e, data_).fingerprint();
  };
  EXPECT_EQ(fingerprint(classifier()), fingerprint(classifier()));
  EXPECT_NE(fingerprint(classifier()), fingerprint(classifier(4, "self.training", "torch.sigmoid")));
  EXPECT_NE(fingerprint(classifier()), fingerprint(classifier(4, "False")));
}

/// The file was saved in training mode; in that mode batch norm would use the batch's statistics, and dropout would
/// draw.
TEST_F(ImportedModels, AreExportedForEvaluation) {
  const torch::jit::Module original = classifier(4, "self.training", "torch.tanh");
  RunSpec e = experiment_for(original);
  const Model model = build_model(e, data_);
  write_torchscript(folder_ / "out.pt", folder_ / "own.pt", model, model.initial_values()->tensors);
  torch::jit::Module exported = torch::jit::load((folder_ / "out.pt").string());
  for (const auto& module : exported.modules()) EXPECT_FALSE(module.is_training());
  const at::Tensor data = random_tensor({6, 4}, 3);
  const auto output = [&](torch::jit::Module module) { return module.forward({data}).toTensor(); };
  EXPECT_TRUE(at::allclose(output(exported), output(copy_to_run(original, /*training=*/false))));
  EXPECT_FALSE(at::allclose(output(exported), output(copy_to_run(original, /*training=*/true))));
}

}  // namespace
}  // namespace trireme::test_support
