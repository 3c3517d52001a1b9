// A run folder restored to a step: the run's next process finds what the folder's writer recorded, bit for bit.
#include "report/earlier_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "report/run_folder.h"
#include "sample.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::trireme::test_support::read_text;
using ::trireme::test_support::TemporaryFolder;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double loss_of(int64_t step) { return 1.0 / (3 * double(step)); }  // not a short decimal number

void write_steps(RunFolder& folder, int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; ++step) {
    StepReport report;
    report.point = {step, step * 128, double(step) / 7, loss_of(step)};
    folder.on_step(report);
    if (step % 2 == 0)
      folder.on_evaluation(
          {step,
           step * 128,
           double(step) / 10,
           double(step) / 7,
           loss_of(step) / 2,
           {{"mean_iou", 0.5}, {"pixel_accuracy", loss_of(step)}, {"iou.0", 0.1}, {"iou.2", kNan}, {"iou.10", 0.3}}});
  }
}

TEST(EarlierRun, MakesARowOfTheRecordsOfAKilledRun) {
  TemporaryFolder root;
  const fs::path path = root.path() / "run";
  RunFolder folder(path);
  EXPECT_FALSE(row_from_records(path)) << "nothing was written";
  write_steps(folder, 1, 5);
  EXPECT_FALSE(row_from_records(path)) << "the plan is not known";
  folder.write_plan(R"({"name": "local-sgd", "devices": 2, "replicas": 3})");
  const std::optional<RunResult> row = row_from_records(path);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->strategy, "local-sgd");
  EXPECT_EQ(row->devices, 6);
  EXPECT_EQ(row->status, RunStatus::failed);
  EXPECT_EQ(row->reason, "ended without a result after step 5: it was killed, or it still runs");
  ASSERT_EQ(row->curve.size(), 5u);
  EXPECT_EQ(row->curve.back().loss, loss_of(5));
  ASSERT_EQ(row->evaluations.size(), 2u);
  EXPECT_EQ(row->evaluations.back().step, 4);
}

TEST(EarlierRun, KnowsLearningRatesAndNorms) {
  TemporaryFolder root;
  const fs::path path = root.path() / "run";
  {
    RunFolder folder(path);
    StepReport report;
    report.point = {.step = 1, .samples = 128, .learning_rate = 0.5, .gradient_norm = 2.25};
    folder.on_step(report);
    report.point = {.step = 2, .samples = 256, .learning_rate = 0.25};
    folder.on_step(report);
  }
  std::ofstream(path / "metrics.jsonl", std::ios::app)
      << "{\"kind\": \"step\", \"step\": 3, \"samples\": 384, \"seconds\": 1, \"loss\": 2}\n";
  const EarlierRun earlier = rewind_metrics(path, {.step = 3}, {});
  ASSERT_EQ(earlier.curve.size(), 3u);
  EXPECT_EQ(earlier.curve[0].learning_rate, 0.5);
  EXPECT_EQ(earlier.curve[0].gradient_norm, 2.25);
  EXPECT_EQ(earlier.curve[1].learning_rate, 0.25);
  EXPECT_FALSE(earlier.curve[1].gradient_norm);
  EXPECT_EQ(earlier.curve[2].loss, 2) << "a line of an older version";
}

TEST(EarlierRun, KeepsWhatIsNotTrainedAgain) {
  TemporaryFolder root;
  const fs::path path = root.path() / "run";
  {
    RunFolder folder(path);
    write_steps(folder, 1, 7);
  }
  std::ofstream(path / "metrics.jsonl", std::ios::app)
      << "{\"kind\": \"final\", \"step\": 3, \"auc\": 1}\n{\"kind\": \"step\", \"step\": 8, \"lo";
  const EarlierRun earlier = rewind_metrics(path, {.step = 5}, {"mean_iou", "pixel_accuracy"});
  ASSERT_EQ(earlier.curve.size(), 5u);
  for (int64_t step = 1; step <= 5; ++step) {
    const CurvePoint& point = earlier.curve[size_t(step - 1)];
    EXPECT_EQ(std::tuple(point.step, point.samples, point.seconds, point.loss),
              std::tuple(step, step * 128, double(step) / 7, loss_of(step)));
  }
  ASSERT_EQ(earlier.evaluations.size(), 2u);
  const EvaluationPoint& last = earlier.evaluations.back();
  EXPECT_EQ(std::tuple(last.step, last.samples, last.epoch, last.loss), std::tuple(4, 4 * 128, 0.4, loss_of(4) / 2));
  std::vector<std::string> names;
  for (const Metric& metric : last.metrics) names.push_back(metric.name);
  EXPECT_EQ(names, (std::vector<std::string>{"mean_iou", "pixel_accuracy", "iou.0", "iou.2", "iou.10"}));
  EXPECT_EQ(last.metrics[1].value, loss_of(4));
  EXPECT_TRUE(std::isnan(last.metrics[3].value));

  // The process that continues the run appends its lines.
  RunFolder folder(path, IfExists::go_on);
  EXPECT_EQ(folder.path(), path);
  write_steps(folder, 6, 8);
  const EarlierRun all = rewind_metrics(path, {.step = 100}, {"mean_iou"});
  ASSERT_EQ(all.curve.size(), 8u);
  for (int64_t step = 1; step <= 8; ++step) EXPECT_EQ(all.curve[size_t(step - 1)].step, step);
  EXPECT_EQ(all.evaluations.size(), 4u);
  const std::string text = read_text(path / "metrics.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 12);
  const EarlierRun unfinished = rewind_metrics(path, {.step = 6, .awaits_evaluation = true}, {"mean_iou"});
  EXPECT_EQ(unfinished.curve.size(), 6u);
  EXPECT_EQ(unfinished.evaluations.size(), 2u);
  EXPECT_TRUE(rewind_metrics(path, {}, {}).curve.empty());
  EXPECT_EQ(read_text(path / "metrics.jsonl"), "");
}

/// A run is resumed in other folders twice, the second time from a step before the end of the first resumed run.
TEST(EarlierRun, AResumedRunKeepsTheStepsBefore) {
  TemporaryFolder root;
  const fs::path first = root.path() / "first", second = root.path() / "second", third = root.path() / "third";
  {
    RunFolder folder(first);
    write_steps(folder, 1, 7);
  }
  RunFolder folder(second);
  keep_earlier_steps(first / "checkpoints" / "step-5", {.step = 5}, second);
  write_steps(folder, 6, 9);
  ExperimentResult result;
  result.rows.resize(1);
  result.rows[0].evaluations = {{6, 768, 0.6, 1, 1, {{"mean_iou", 0.5}, {"pixel_accuracy", 0.5}}}};
  EarlierSteps steps = earlier_steps(second, result);
  ASSERT_EQ(steps.joins.size(), 1u);
  EXPECT_EQ(steps.joins[0].step, 5);
  EXPECT_EQ(steps.joins[0].from, (first / "checkpoints" / "step-5").string());
  EXPECT_TRUE(steps.joins[0].known);
  ASSERT_EQ(steps.run.curve.size(), 5u);
  EXPECT_EQ(steps.run.curve.back().loss, loss_of(5));
  ASSERT_EQ(steps.run.evaluations.size(), 2u);
  EXPECT_EQ(steps.run.evaluations[0].metrics[1].name, "pixel_accuracy") << "in the order of the run's own metrics";

  fs::create_directories(third);
  keep_earlier_steps(second / "checkpoints" / "step-8", {.step = 8, .awaits_evaluation = true}, third);
  steps = earlier_steps(third, result);
  ASSERT_EQ(steps.joins.size(), 2u);
  EXPECT_EQ(steps.joins[1].step, 8);
  ASSERT_EQ(steps.run.curve.size(), 8u);
  for (int64_t step = 1; step <= 8; ++step) EXPECT_EQ(steps.run.curve[size_t(step - 1)].step, step);
  EXPECT_EQ(steps.run.evaluations.size(), 3u) << "the evaluation after step 8 will be made again";
}

TEST(EarlierRun, ACheckpointWithoutItsRunSaysSo) {
  TemporaryFolder root;
  ExperimentResult result;
  result.rows.resize(1);
  EXPECT_TRUE(earlier_steps(root.path(), result).joins.empty()) << "a run that was not resumed";
  keep_earlier_steps(root.path() / "elsewhere" / "checkpoints" / "step-5", {.step = 5}, root.path());
  const EarlierSteps steps = earlier_steps(root.path(), result);
  ASSERT_EQ(steps.joins.size(), 1u);
  EXPECT_FALSE(steps.joins[0].known);
  EXPECT_TRUE(steps.run.curve.empty());
  std::ofstream(root.path() / kEarlierFile) << "{\"kind\": \"resumed\", \"step\": 5}\n";
  EXPECT_THROW(earlier_steps(root.path(), result), Error);
}

TEST(EarlierRun, ACheckpointMayEndWithASlash) {
  TemporaryFolder root;
  const fs::path first = root.path() / "first", second = root.path() / "second";
  {
    RunFolder folder(first);
    write_steps(folder, 1, 3);
  }
  fs::create_directories(second);
  keep_earlier_steps(first / "checkpoints" / "step-2" / "", {.step = 2}, second);
  ExperimentResult result;
  result.rows.resize(1);
  const EarlierSteps steps = earlier_steps(second, result);
  ASSERT_EQ(steps.joins.size(), 1u);
  EXPECT_TRUE(steps.joins[0].known);
  EXPECT_EQ(steps.run.curve.size(), 2u);
}

/// Records are only needed for drawings, so the run resumes without them.
TEST(EarlierRun, RecordsThatCannotBeReadAreNotKnown) {
  TemporaryFolder root;
  const fs::path first = root.path() / "first", second = root.path() / "second";
  fs::create_directories(first);
  fs::create_directories(second);
  std::ofstream(first / "metrics.jsonl") << "{\"kind\": \"step\", \"step\": \"one\"}\n";
  EXPECT_NO_THROW(keep_earlier_steps(first / "checkpoints" / "step-2", {.step = 2}, second));
  ExperimentResult result;
  result.rows.resize(1);
  const EarlierSteps steps = earlier_steps(second, result);
  ASSERT_EQ(steps.joins.size(), 1u);
  EXPECT_FALSE(steps.joins[0].known);
  EXPECT_TRUE(steps.run.curve.empty());
}

TEST(EarlierRun, ALineWithoutAStepIsSkipped) {
  TemporaryFolder root;
  std::ofstream(root.path() / kEarlierFile) << "{\"kind\": \"resumed\"}\n";
  ExperimentResult result;
  result.rows.resize(1);
  EXPECT_TRUE(earlier_steps(root.path(), result).joins.empty());
}

TEST(EarlierRun, ARowHasAllOfTheRun) {
  EarlierRun earlier;
  earlier.curve = {{1, 128, 0.1, 3}, {2, 256, 0.2, 2}};
  earlier.evaluations = {{1, 128, 0.1, 0.1, 1, {{"accuracy", 0.5}}}, {2, 256, 0.2, 0.2, 1, {{"accuracy", 0.9}}}};
  RunResult row;
  row.curve = {{3, 384, 0.3, 1}};
  row.evaluations = {{3, 384, 0.3, 0.3, 1, {{"accuracy", 0.95}}}};
  row.target = 0.8;
  row.to_target = ToTarget{3, 0.3, 0.3};
  RunResult late = row, none = row;
  add_earlier(earlier, row);
  ASSERT_EQ(row.curve.size(), 3u);
  EXPECT_EQ(row.curve[1].loss, 2);
  ASSERT_EQ(row.evaluations.size(), 3u);
  EXPECT_EQ(row.test->step, 3);
  EXPECT_EQ(row.to_target->steps, 2) << "reached before the ranks were lost";
  late.target = 0.93;
  add_earlier(earlier, late);
  EXPECT_EQ(late.to_target->steps, 3);
  none.target.reset();
  none.to_target.reset();
  none.evaluations.clear();
  add_earlier(earlier, none);
  EXPECT_FALSE(none.to_target);
  EXPECT_EQ(none.test->step, 2);
}

TEST(EarlierRun, AFolderWithoutMetricsHasNone) {
  TemporaryFolder root;
  EXPECT_TRUE(rewind_metrics(root.path(), {.step = 5}, {}).curve.empty());
  EXPECT_FALSE(fs::exists(root.path() / "metrics.jsonl"));
}

}  // namespace
}  // namespace trireme
