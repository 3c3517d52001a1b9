#include "report/two_runs.h"

#include <gtest/gtest.h>

#include "report/table.h"
#include "sample.h"

namespace trireme {
namespace {

using ::trireme::test_support::sample_result;

const Column* column(const RunChanges& changes, const std::string& title) {
  for (const Column& column : changes.columns)
    if (column.title == title) return &column;
  return nullptr;
}

TEST(TwoRuns, EqualRunsAreTooCloseToCall) {
  const RunChanges changes = changes_between(sample_result(), sample_result());
  EXPECT_TRUE(changes.settings.empty());
  EXPECT_EQ(changes.curve_settings, "");
  ASSERT_EQ(changes.verdict.size(), 3u);
  EXPECT_EQ(changes.verdict[0], "Of 5 rows in common B is faster in 0, slower in 0, and 4 are too close to call.");
  EXPECT_EQ(changes.verdict[1], "The other has no times that can be compared.");
  EXPECT_EQ(changes.verdict[2], "Not all rows are ok: tensor on 2 devices timed out in A and B.");
  ASSERT_TRUE(column(changes, "B against A"));
  EXPECT_EQ(column(changes, "B against A")->cells,
            (std::vector<std::string>{"too close to call", "too close to call", "too close to call",
                                      "too close to call", "–"}))
      << "the row that timed out has no time to compare";
}

TEST(TwoRuns, NamesWhatIsFasterSlowerAndOnlyInOne) {
  const ExperimentResult a = sample_result();
  ExperimentResult b = sample_result();
  b.rows[0].step_seconds = StepSeconds{0.0424, 0.042, 0.043};    // single: half as fast
  b.rows[1].step_seconds = StepSeconds{0.00904, 0.009, 0.0091};  // data: 1.25 times as fast
  b.rows[1].memory[0].peak *= 2;
  b.rows[2].name = "gpipe";
  b.seed = 7;
  b.simulated = "8 devices";
  const RunChanges changes = changes_between(a, b);
  ASSERT_EQ(changes.columns[0].cells.size(), 6u);
  EXPECT_EQ(changes.columns[0].cells[5], "gpipe") << "rows of both runs come first";
  EXPECT_EQ(changes.columns[0].cells[4], "pipeline");
  EXPECT_EQ(column(changes, "B against A")->cells[0], "2.00 times as slow");
  EXPECT_EQ(column(changes, "B against A")->cells[1], "1.25 times as fast");
  EXPECT_EQ(column(changes, "time per step in A")->cells[5], "–");
  EXPECT_EQ(column(changes, "time per step in B")->cells[4], "–");
  EXPECT_NE(column(changes, "peak memory in A")->cells[1], column(changes, "peak memory in B")->cells[1]);
  EXPECT_EQ(column(changes, "test in A")->cells[0], "98.9 %");
  EXPECT_EQ(changes.settings, (std::vector<std::string>{"seed: 18446744073709551615 in A, 7 in B",
                                                        "times: of a run in A, simulated: 8 devices in B"}));
  EXPECT_EQ(changes.verdict.at(0), "Of 4 rows in common B is faster in 1, slower in 1, and 1 is too close to call.");
  EXPECT_EQ(changes.verdict.at(2), "The greatest difference: single on 1 device, 2.00 times as slow in B.");
  EXPECT_EQ(column(changes, "time per step in B")->cells[0], "42.4 ms");
  const std::string text = changes_text(changes, {.width = 100, .utf8 = false});
  for (const char* part : {"2.00 times as slow", "seed: 18446744073709551615 in A, 7 in B", "Of 4 rows in common"})
    EXPECT_NE(text.find(part), text.npos) << part;
}

/// A step with twice the batch that takes 1.5 times as long counts as faster.
TEST(TwoRuns, StepsOfOtherBatchesAreComparedPerSample) {
  ExperimentResult a = sample_result(), b = sample_result();
  a.rows = {a.rows[0]};
  b.rows = {b.rows[0]};
  b.batch = 2 * a.batch;
  b.rows[0].step_seconds = StepSeconds{1.5 * 0.0212, 1.49 * 0.0212, 1.51 * 0.0212};
  const RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict, (std::vector<std::string>{
                                 "A and B are not the same training: they differ in batch.",
                                 "A step has 128 samples in A and 256 in B, so only times per sample can be compared.",
                                 "single on 1 device: B is 1.33 times as fast per sample as A."}));
  EXPECT_EQ(column(changes, "B against A")->unit, "per sample");
  EXPECT_EQ(column(changes, "time per step in B")->cells[0], "31.8 ms");
}

TEST(TwoRuns, BeginsWithWhatMakesThemOtherTrainings) {
  ExperimentResult a = sample_result(), b = sample_result();
  a.rows = {a.rows[0]};
  b.rows = {b.rows[0]};
  b.rows[0].step_seconds = StepSeconds{12.5 * 0.0212, 12.4 * 0.0212, 12.6 * 0.0212};
  b.seed = 7;
  RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict, std::vector<std::string>{"single on 1 device: B is 12.5 times as slow as A."})
      << "another seed does not change what a step does";
  EXPECT_EQ(changes.curve_settings, "seed");
  b.model = "resnet";
  changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict, (std::vector<std::string>{"A and B are not the same training: they differ in model.",
                                                       "single on 1 device: B is 12.5 times as slow per step as A."}));
  b.data_source = "CIFAR-10";
  b.precision = "bfloat16";
  b.machine = "4 cores";
  changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0), "A and B are not the same training: they differ in model, data and precision.");
  EXPECT_EQ(changes.curve_settings, "model, data, precision and seed");
  EXPECT_EQ(changes.settings.back(), "machine: 2 cores, AVX-512, AMX, 23.4 GiB; libtorch 1.13.1 in A, 4 cores in B");
}

/// A run.json of an older version lacks some settings, and a simulation without files describes only the data's shape.
TEST(TwoRuns, WhatIsNotKnownMakesNoOtherTraining) {
  const ExperimentResult a = sample_result();
  ExperimentResult b = sample_result();
  b.model = b.data_source = b.precision = "";
  b.batch = 0;
  RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0), "Of 5 rows in common B is faster in 0, slower in 0, and 4 are too close to call.");
  EXPECT_EQ(changes.curve_settings, "");
  EXPECT_EQ(changes.settings.back(), "batch: 128 in A, none in B");
  b = sample_result();
  b.simulated = "8 devices";
  b.data_source = "MNIST, 60,000 training samples of [1, 28, 28], 10 classes";
  changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0).find("not the same training"), std::string::npos) << changes.verdict.at(0);
  EXPECT_EQ(changes.settings.front(), "data: MNIST (60000 + 10000 images) in A, " + b.data_source + " in B");
}

/// Epochs are compared whatever the batch; those of other data may have more samples.
TEST(TwoRuns, EpochsOfOtherDataMayHaveOtherNumbersOfSamples) {
  const ExperimentResult a = test_support::policies_sample();
  ExperimentResult b = test_support::policies_sample();
  b.batch = 2 * a.batch;
  b.data_source = "CIFAR-10";
  const RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0), "A and B are not the same training: they differ in data and batch.");
  EXPECT_EQ(changes.verdict.at(1), "An epoch need not have as many samples in A as in B.");
  EXPECT_NE(changes.verdict.at(2).find("B is faster per epoch in 0"), std::string::npos) << changes.verdict.at(2);
}

TEST(TwoRuns, SaysWhichRunFailedAndWhatItTookUntilThen) {
  ExperimentResult a = sample_result(), b = sample_result();
  a.rows = {a.rows[1]};
  b.rows = {b.rows[1]};
  b.rows[0].status = RunStatus::failed;
  b.rows[0].reason = "rank 1 died";
  RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict,
            (std::vector<std::string>{
                "data on 2 devices: B failed (rank 1 died), so the runs have no times that can be compared.",
                "Until then a step of B took 11.3 ms."}));
  ASSERT_TRUE(column(changes, "status in B"));
  EXPECT_EQ(column(changes, "status in A")->cells[0], "ok");
  EXPECT_EQ(column(changes, "status in B")->cells[0], "failed");
  EXPECT_EQ(column(changes, "B against A")->cells[0], "–");
  EXPECT_EQ(column(changes, "time per step in B")->cells[0], "11.3 ms");
  a.rows[0].status = RunStatus::interrupted;
  a.rows[0].step_seconds.reset();
  b.rows[0].reason = "";
  changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0),
            "data on 2 devices: A was interrupted and B failed, so the runs have no times that can be compared.");
  EXPECT_EQ(changes.verdict.size(), 2u);
  EXPECT_EQ(column(changes, "time per step in A")->cells[0], "–");
  a = b = sample_result();
  a.rows.pop_back();
  b.rows.pop_back();
  EXPECT_FALSE(column(changes_between(a, b), "status in A")) << "all rows are ok";
}

TEST(TwoRuns, NamesAtMostFourRowsThatAreNotOk) {
  ExperimentResult a = sample_result(), b = sample_result();
  a.rows[0].status = RunStatus::failed;
  b.rows[0].status = RunStatus::timed_out;
  b.rows[1].status = RunStatus::interrupted;
  b.rows[2].status = RunStatus::failed;
  EXPECT_EQ(changes_between(a, b).verdict.back(),
            "Not all rows are ok: single on 1 device failed in A and timed out in B; data on 2 devices was interrupted "
            "in B; pipeline on 2 devices failed in B; tensor on 2 devices timed out in A and B.");
  b.rows[3].status = RunStatus::failed;
  EXPECT_NE(changes_between(a, b).verdict.back().find("pipeline on 2 devices failed in B; 2 more."), std::string::npos);
  const RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0), "The runs have 5 rows in common, without times that can be compared.");
  EXPECT_EQ(column(changes, "time per step in B")->cells[1], "11.3 ms");
}

TEST(TwoRuns, RunsOfOneRowEachAreComparedWhateverRan) {
  ExperimentResult a = sample_result(), b = sample_result();
  a.rows = {a.rows[0]};
  b.rows = {b.rows[1]};
  const RunChanges changes = changes_between(a, b);
  EXPECT_EQ(changes.verdict.at(0), "single on 1 device, then data on 2 devices: B is 1.88 times as fast as A.");
  EXPECT_EQ(changes.columns[0].cells, std::vector<std::string>{"single, then data"});
  EXPECT_EQ(changes.columns[1].cells, std::vector<std::string>{"1, then 2"});
  b.rows[0].step_seconds.reset();
  EXPECT_NE(changes_between(a, b).verdict.at(0).find("no times that can be compared"), std::string::npos);
}

/// If predictions differ by less than 10 %, neither run counts as faster.
TEST(TwoRuns, OfSimulatedRunsNearTimesAreTooCloseToCall) {
  ExperimentResult a = sample_result(), b = sample_result();
  a.rows = {a.rows[0]};
  b.rows = {b.rows[0]};
  a.simulated = b.simulated = "8 devices";
  for (const double factor : {1.08, 1 / 1.08}) {
    b.rows[0].step_seconds->median = factor * a.rows[0].step_seconds->median;
    EXPECT_EQ(changes_between(a, b).verdict.at(0), "single on 1 device: A and B are too close to call.");
  }
  b.rows[0].step_seconds->median = a.rows[0].step_seconds->median / 1.25;
  EXPECT_EQ(changes_between(a, b).verdict.at(0), "single on 1 device: B is 1.25 times as fast as A.");
  a.simulated = "";  // compares a measured run with a simulated one
  a.rows[0].step_seconds = StepSeconds{0.0212, 0.0211, 0.0213};
  b.rows[0].step_seconds = StepSeconds{0.0225, 0.0225, 0.0225};
  const std::vector<std::string> verdict = changes_between(a, b).verdict;
  EXPECT_EQ(verdict.at(0), "single on 1 device: A and B are too close to call.");
  EXPECT_EQ(verdict.at(1),
            "A was measured and B was simulated, so a difference below 10 % may be the error of the "
            "prediction.");
}

TEST(TwoRuns, WithoutCommonRowsSaysSo) {
  ExperimentResult b = sample_result();
  for (RunResult& row : b.rows) row.devices = 64;
  EXPECT_EQ(changes_between(sample_result(), b).verdict.at(0), "The runs have no row in common.");
  EXPECT_TRUE(changes_between({}, {}).columns.empty());
}

}  // namespace
}  // namespace trireme
