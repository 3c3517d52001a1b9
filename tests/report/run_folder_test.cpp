#include "report/run_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/weights/safetensors.h"
#include "report/run_json.h"
#include "sample.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::trireme::test_support::read_text;
using ::trireme::test_support::sample_result;
using ::trireme::test_support::TemporaryFolder;

StepReport report_at(int64_t step) {
  StepReport report;
  report.point = {step, step * 128, step * 0.01, 1.0 / static_cast<double>(step)};
  report.step_seconds = 0.01;
  report.samples_per_second = 12800;
  return report;
}

TEST(RunFolder, HoldsEveryFileInTheEnd) {
  TemporaryFolder root;
  RunFolder folder(root.path() / "a" / "run");
  EXPECT_EQ(json::parse(read_text(folder.path() / "run.json")).at("status"), "running");
  folder.write_plan("{\"plan\": 1}\n");
  folder.on_step(report_at(1));
  folder.on_evaluation({1, 128, 0.1, 0.01, 0.5, {{"accuracy", 0.9}}});
  ExperimentResult result = sample_result();
  folder.update(result);
  EXPECT_EQ(json::parse(read_text(folder.path() / "run.json")).at("status"), "running");
  folder.finish(result);
  EXPECT_EQ(json::parse(read_text(folder.path() / "run.json")).at("status"), "finished");
  EXPECT_EQ(from_json(json::parse(read_text(folder.path() / "run.json"))).rows.size(), 5u);
  EXPECT_FALSE(json::parse(read_text(folder.path() / "trace.json")).at("traceEvents").empty());
  EXPECT_EQ(read_text(folder.path() / "plan.json"), "{\"plan\": 1}\n");
  EXPECT_TRUE(read_text(folder.path() / "report.html").starts_with("<!DOCTYPE html>"));
  int events = 0, others = 0;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    (entry.path().filename().string().starts_with("events.out.tfevents.") ? events : others)++;
  EXPECT_EQ(events, 1);
  EXPECT_EQ(others, 5) << "run, plan, trace, report, metrics; no temporary files";
}

TEST(RunFolder, WritesWeightsWholeOrNotAtAll) {
  TemporaryFolder root;
  RunFolder folder(root.path() / "run");
  folder.on_weights(
      {.tensors = {{"fc.weight", at::arange(6, at::kFloat).view({2, 3})}}, .metadata = {{"format", "pt"}}});
  const Weights read = read_safetensors(folder.path() / "weights.safetensors");
  EXPECT_TRUE(at::equal(read.tensors.at("fc.weight"), at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_EQ(read.metadata.at("format"), "pt");
  fs::remove_all(folder.path());
  EXPECT_THROW(folder.on_weights({.tensors = {{"w", at::ones({1})}}}), Error);
}

TEST(RunFolder, KeepsWhereTheWeightsCameFrom) {
  TemporaryFolder root;
  RunFolder folder(root.path() / "run");
  ExperimentResult result = sample_result();
  result.initial_values = {"x.pt: 3 of 4 tensors", "  1 missing <fc.bias>"};
  folder.finish(result);
  EXPECT_EQ(from_json(json::parse(read_text(folder.path() / "run.json"))).initial_values, result.initial_values);
  EXPECT_NE(read_text(folder.path() / "report.html").find("x.pt: 3 of 4 tensors;   1 missing &lt;fc.bias&gt;"),
            std::string::npos);
}

TEST(RunFolder, WritesEveryMetric) {
  TemporaryFolder root;
  RunFolder folder(root.path() / "run");
  folder.on_step(report_at(1));
  folder.on_evaluation({1, 128, 0.1, 0.01, 0.5, {{"perplexity", 42.5}, {"accuracy", 0.25}, {"r2", std::nan("")}}});
  ExperimentResult result = sample_result();
  result.rows = {result.rows[0]};
  result.rows[0].final_metrics = {{"bleu", 5.5}};
  folder.finish(result);
  std::ifstream metrics(folder.path() / "metrics.jsonl");
  std::vector<json> lines;
  for (std::string line; std::getline(metrics, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1],
            json::parse(R"({"kind": "test", "step": 1, "samples": 128, "epoch": 0.1, "seconds": 0.01, "loss": 0.5,
                                      "perplexity": 42.5, "accuracy": 0.25, "r2": null})"));
  EXPECT_EQ(lines[2], json::parse(R"({"kind": "final", "step": 400, "bleu": 5.5})"));
  std::string events;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().filename().string().starts_with("events.out")) events = read_text(entry.path());
  for (const char* tag : {"test/loss", "test/perplexity", "test/accuracy", "test/bleu"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
  EXPECT_EQ(events.find("test/r2"), std::string::npos) << "there is none";
}

TEST(RunFolder, WritesLearningRateAndNormOfTheGradient) {
  TemporaryFolder root;
  RunFolder folder(root.path() / "run");
  StepReport report = report_at(1);
  report.point.learning_rate = 0.25;
  folder.on_step(report);
  const std::string before = read_text(folder.path() / "metrics.jsonl");
  EXPECT_EQ(json::parse(before).at("learning_rate"), 0.25);
  EXPECT_FALSE(json::parse(before).contains("gradient_norm")) << "it was not measured";
  report.point.gradient_norm = 1.5;
  folder.on_step(report);
  const json line = json::parse(read_text(folder.path() / "metrics.jsonl").substr(before.size()));
  EXPECT_EQ(line.at("gradient_norm"), 1.5);
  std::string events;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().filename().string().starts_with("events.out")) events = read_text(entry.path());
  const size_t rate = events.find("train/learning_rate"), norm = events.find("train/gradient_norm");
  ASSERT_NE(norm, std::string::npos);
  EXPECT_LT(rate, norm);
  EXPECT_EQ(events.find("train/gradient_norm", norm + 1), std::string::npos) << "only of the second step";
}

TEST(RunFolder, IsReadableAfterAKill) {
  TemporaryFolder root;
  fs::path path = root.path() / "run";
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RunFolder folder(path);
    for (int64_t step = 1;; ++step) {
      folder.on_step(report_at(step));
      folder.update(sample_result());
    }
  }
  auto enough = [&] { return fs::exists(path / "metrics.jsonl") && fs::file_size(path / "metrics.jsonl") > 2000; };
  for (int i = 0; i < 60000 && !enough(); ++i) ::usleep(1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(enough());
  std::ifstream metrics(path / "metrics.jsonl");
  int64_t step = 0;
  for (std::string line; std::getline(metrics, line);) EXPECT_EQ(json::parse(line).at("step"), ++step);
  EXPECT_GT(step, 5);
  json run = json::parse(read_text(path / "run.json"));
  EXPECT_EQ(run.at("status"), "running");
  EXPECT_NO_THROW(from_json(run));
}

TEST(RunFolder, NeverOverwritesAnother) {
  TemporaryFolder root;
  fs::path path = root.path() / "run";
  { RunFolder(path).finish(sample_result()); }
  std::string before = read_text(path / "run.json");
  EXPECT_THROW(RunFolder{path}, Error);
  RunFolder second(path, IfExists::pick_another), third(path, IfExists::pick_another);
  EXPECT_EQ(second.path(), root.path() / "run-2");
  EXPECT_EQ(third.path(), root.path() / "run-3");
  EXPECT_EQ(read_text(path / "run.json"), before);
  std::ofstream(root.path() / "file") << "text";
  EXPECT_THROW(RunFolder(root.path() / "file"), Error);
  fs::create_directory(root.path() / "empty");
  EXPECT_NO_THROW(RunFolder((root.path() / "empty").string() + "/"));
}

TEST(RunFolder, WritesNullForALossThatIsNotFinite) {
  TemporaryFolder root;
  RunFolder folder(root.path() / "run");
  StepReport report = report_at(1);
  report.point.loss = std::numeric_limits<double>::quiet_NaN();
  folder.on_step(report);
  EXPECT_TRUE(json::parse(read_text(folder.path() / "metrics.jsonl")).at("loss").is_null());
}

TEST(RunFolder, DerivesItsNameFromTheExperiment) {
  EXPECT_EQ(default_run_path("my net/1", "2026-01-31T23:59:58Z"), fs::path("runs/my-net-1-20260131-235958"));
  EXPECT_EQ(default_run_path("../x", ""), fs::path("runs/run..-x"));
}

}  // namespace
}  // namespace trireme
