#include "report/table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "report/columns.h"
#include "report/run_json.h"
#include "report/width.h"
#include "sample.h"
#include "train/compare.h"

namespace trireme {
namespace {

using ::trireme::test_support::sample_result;
using ::trireme::test_support::segmentation_sample;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Table, KeepsToTheWidthOfTheTerminal) {
  for (int width : {60, 80, 100, 132, 240})
    for (const std::string& line : lines_of(comparison_table(sample_result(), {.width = width})))
      EXPECT_LE(columns_of(line), width) << line;
}

TEST(Table, ContinuesInASecondBlockThatNamesTheRowsAgain) {
  auto blocks = [](int width) {
    int count = 0;
    std::string text = comparison_table(sample_result(), {.width = width});
    text = text.substr(0, text.find("memory at the peak"));
    for (const std::string& line : lines_of(text)) count += line.starts_with("strategy");
    return count;
  };
  EXPECT_EQ(blocks(1000), 1);
  EXPECT_EQ(blocks(160), 2);
}

TEST(Table, AlignsNumbersToTheRight) {
  std::vector<std::string> lines = lines_of(comparison_table(sample_result(), {.width = 1000}));
  ASSERT_GE(lines.size(), 8u);
  EXPECT_TRUE(lines[0].starts_with("strategy  devices  plan"));
  EXPECT_TRUE(lines[3].starts_with("single          1  single ")) << lines[3];
  EXPECT_TRUE(lines[6].starts_with("hybrid          4  data 2 x tensor 2 ")) << lines[6];
  EXPECT_NE(lines[1].find("ms: median [p10-p90]"), std::string::npos);
  EXPECT_NE(lines[3].find("21.2 [20.1-25.4]"), std::string::npos) << lines[3];
  EXPECT_NE(lines[4].find("8.1 / 10.4"), std::string::npos) << lines[4];
}

TEST(Table, TellsWhyRowsFailedAndWhatToMind) {
  std::string text = comparison_table(sample_result(), {.width = 200});
  EXPECT_NE(text.find("tensor on 2 devices: timed out: no step in 60 s; raise --time-limit"), std::string::npos)
      << text;
  EXPECT_NE(text.find("ok [1]"), std::string::npos);
  EXPECT_NE(text.find("[1] 4 workers share 2 cores"), std::string::npos);
}

TEST(Table, TellsOnceWhyRowsFailedForTheSameReason) {
  ExperimentResult result = sample_result();
  for (RunResult& row : result.rows) {
    row.status = RunStatus::skipped;
    row.reason = row.devices == 2 ? "a" : "b";
  }
  const auto rows = size_t(
      std::count_if(result.rows.begin(), result.rows.end(), [](const RunResult& row) { return row.reason == "a"; }));
  ASSERT_GT(rows, 1U);
  ASSERT_GT(result.rows.size() - rows, 1U);
  const std::vector<std::string> lines = failures(result);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.ends_with(" on 2 devices: skipped: a"); }),
            1);
}

TEST(Table, SaysOfAsaThatItIsAReconstruction) {
  ExperimentResult result = sample_result();
  EXPECT_EQ(comparison_table(result, {.width = 200}).find("reconstruction"), std::string::npos);
  result.rows[1].strategy = result.rows[3].strategy = "asa";
  const std::string text = comparison_table(result, {.width = 200});
  EXPECT_NE(text.find("\nasa: a reconstruction "), std::string::npos) << text;
  EXPECT_EQ(text.find("reconstruction"), text.rfind("reconstruction")) << "once for all rows";
}

TEST(Table, OfAClassificationShowsAccuracies) {
  const std::string text = comparison_table(sample_result(), {.width = 1000});
  EXPECT_NE(text.find("loss / accuracy"), std::string::npos) << text;
  EXPECT_NE(text.find("0.0608 / 98.9 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("loading"), std::string::npos) << "0.4 % of a step are not worth a column";
  EXPECT_EQ(text.find("by class"), std::string::npos);
}

TEST(Table, ShowsTheMetricsOfTheTask) {
  ExperimentResult result = segmentation_sample();
  result.rows[0].final_metrics = {{"bleu", 12.345}};
  const std::vector<std::string> lines = lines_of(comparison_table(result, {.width = 1000}));
  for (const char* title : {"pixel accuracy", "BLEU", "loading"})
    EXPECT_NE(lines[0].find(title), std::string::npos) << title;
  EXPECT_NE(lines[1].find("loss / mean IoU"), std::string::npos) << lines[1];
  EXPECT_NE(lines[3].find("0.0608 / 48.9 %"), std::string::npos) << lines[3];
  EXPECT_NE(lines[3].find("78.9 %"), std::string::npos) << lines[3];
  EXPECT_NE(lines[3].find("12.3"), std::string::npos) << lines[3];
  EXPECT_EQ(lines[0].find("IoU of class"), std::string::npos) << "classes have a table of their own";
  const auto begin = std::find(lines.begin(), lines.end(), "test set, by class");
  ASSERT_NE(begin, lines.end());
  EXPECT_TRUE(begin[1].starts_with("class  single, 1  data, 2")) << begin[1];
  EXPECT_TRUE(begin[4].starts_with("    0       58.9     58.9")) << begin[4];
  EXPECT_TRUE(begin[5].starts_with("    1          –        –")) << begin[5];
}

TEST(Table, NamesTheFirstRowAtTheTarget) {
  EXPECT_NE(join(summary(sample_result())).find("first at a test accuracy of 98.0 %: data on 2 devices"),
            std::string::npos);
  EXPECT_NE(join(summary(segmentation_sample())).find("first at a test mean IoU of 30.0 %"), std::string::npos);
}

std::vector<std::string> cells_of(const std::vector<Column>& columns, const std::string& title) {
  for (const Column& column : columns)
    if (column.title == title) return column.cells;
  return {"no such column"};
}

std::vector<std::string> cells_of(const ExperimentResult& result, const std::string& title) {
  return cells_of(comparison_columns(result), title);
}

TEST(Table, PricesHaveThreeDigitsHoweverSmall) {
  ExperimentResult result = sample_result();
  result.currency = "EUR";
  result.rows[0].price_per_epoch = 0.00037949;
  result.rows[0].price_to_target = 1234.5;
  result.rows[1].price_per_epoch = 0.0;
  EXPECT_EQ(cells_of(result, "price of an epoch"), (std::vector<std::string>{"0.000379", "0", "–", "–", "–"}));
  EXPECT_EQ(cells_of(result, "price to target").at(0), "1234");
}

TEST(Table, SaysWhatReplicasTook) {
  EXPECT_EQ(cells_of(sample_result(), "trained for").at(0), "no such column")
      << "plans make the same steps: the time of one is enough";
  ExperimentResult result = test_support::policies_sample();
  EXPECT_EQ(cells_of(result, "trained for").at(3), "8.48");  // 400 steps of 21.2 ms
  EXPECT_EQ(cells_of(result, "waiting for others").at(1), "5.0");
  EXPECT_EQ(cells_of(result, "sent by all replicas").at(2), "192");
  EXPECT_EQ(cells_of(result, "staleness"), (std::vector<std::string>{"–", "–", "–", "0 / 0", "3 / 7", "31 / 63"}));
  result.rows[4].replicas->staleness = {0, 1, 0, 6, 1, 0};
  EXPECT_EQ(cells_of(result, "staleness").at(4), "3 / 4");
  result.rows[4].replicas->staleness = {0, 0};
  EXPECT_EQ(cells_of(result, "staleness").at(4), "–");
}

TEST(Table, NamesTheFastestOfEachClock) {
  ExperimentResult result = test_support::policies_sample();
  EXPECT_NE(summary(result)[1].find("Fastest by the modelled clock: async-average on 64 devices, 155 ms per epoch"),
            std::string::npos)
      << summary(result)[1];
  const ExperimentResult real = sample_result();
  result.rows.insert(result.rows.end(), real.rows.begin(), real.rows.end());
  EXPECT_NE(summary(result)[2].find("Fastest: data on 2 devices, 11.3 ms per step, 1.88 times"), std::string::npos)
      << summary(result)[2];
}

TEST(Answer, BeginsWithWhatDecidesAndTheVerdict) {
  const std::string text = answer(sample_result(), false, {.width = 120});
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_TRUE(lines[0].starts_with("strategy  devices  status")) << lines[0];
  EXPECT_TRUE(lines[4].starts_with("data            2  ok")) << lines[4];
  for (const char* cell : {"11.3 [10.7-13.6]", "1.88", "33.0", "0.0608 / 98.9 %"})
    EXPECT_NE(lines[4].find(cell), std::string::npos) << cell << ": " << lines[4];
  EXPECT_NE(text.find("Fastest: data on 2 devices, 11.3 ms per step"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor on 2 devices: timed out"), std::string::npos) << text;
  EXPECT_NE(text.find("[1] 4 workers share 2 cores"), std::string::npos) << text;
  EXPECT_NE(text.find("--details"), std::string::npos) << text;
  for (const char* left_out : {"exposed", "test, equal samples", "memory at the peak", "scaling"})
    EXPECT_EQ(text.find(left_out), std::string::npos) << left_out;
}

TEST(Answer, LeavesOutAStatusThatAllRowsHave) {
  ExperimentResult result = sample_result();
  std::erase_if(result.rows, [](const RunResult& row) { return row.status != RunStatus::ok || !row.warnings.empty(); });
  ASSERT_GT(result.rows.size(), 1u);
  EXPECT_EQ(lines_of(answer(result, false, {.width = 120}))[0].find("status"), std::string::npos);
  result.rows.front().warnings = {"4 workers share 2 cores"};
  EXPECT_NE(lines_of(answer(result, false, {.width = 120}))[0].find("status"), std::string::npos);
}

TEST(Answer, KeepsToTheWidthOfTheTerminal) {
  for (int width : {60, 80, 100, 132, 240})
    for (bool details : {false, true})
      for (const std::string& line : lines_of(answer(sample_result(), details, {.width = width})))
        EXPECT_LE(columns_of(line), width) << line;
}

TEST(Answer, WithDetailsHasTheOtherTablesAndEachNoteOnce) {
  const std::string text = answer(sample_result(), true, {.width = 120});
  EXPECT_EQ(text.find("Fastest: data on 2 devices"), text.rfind("Fastest: data on 2 devices"));
  for (const char* part : {"exposed / hidden comm.", "test, equal samples", "memory at the peak of each device"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  EXPECT_EQ(text.find("[1] 4 workers"), text.rfind("[1] 4 workers")) << text;
  EXPECT_EQ(text.find("--details"), std::string::npos);
}

TEST(Answer, OfOneRowIsWhatDecidesAndItsVerdict) {
  ExperimentResult result = sample_result();
  result.rows.resize(1);
  const std::string text = answer(result, false, {.width = 140});
  EXPECT_NE(text.find("\nsingle on 1 device: 21.2 ms per step, test accuracy 98.9 % and test loss 0.0608 at the end; a "
                      "test accuracy of 98.0 % was reached after\n  6.36 s.\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("memory at the peak of each device"), std::string::npos);
  EXPECT_NE(text.find("--details"), std::string::npos);
  const std::string all = answer(result, true, {.width = 140});
  EXPECT_NE(all.find(comparison_table(result, {.width = 140})), std::string::npos);
}

TEST(Answer, MergesRowsWhoseCellsAreEqual) {
  ExperimentResult result = sample_result();
  result.rows.insert(result.rows.begin() + 2, result.rows[1]);
  result.rows[2].name = "zero1";
  result.rows[2].plan = "data 2, zero1";  // differs in the details only
  std::vector<Column> columns = deciding_columns(result);
  EXPECT_EQ(columns[0].cells, (std::vector<std::string>{"single", "data, zero1", "pipeline", "hybrid", "tensor"}));
  for (const Column& column : columns) EXPECT_EQ(column.cells.size(), 5u) << column.title;
  result.rows[2].step_seconds->p90 *= 2;
  EXPECT_EQ(deciding_columns(result)[0].cells.size(), 6u) << "another time";
  result.rows[2] = result.rows[1];
  result.rows[2].name = "a name that is longer than a table has room for";
  EXPECT_EQ(deciding_columns(result)[0].cells.size(), 6u) << "names that do not fit";
}

TEST(Answer, NamesTheSourceOfPredictionsOnlyWhereRowsDiffer) {
  ExperimentResult result = sample_result();
  result.simulated = "8xA100, by datasheets";
  for (RunResult& row : result.rows)
    row.predicted = SimulatedStep{.step_seconds = 0.01, .peak_memory = {}, .basis = "datasheet"};
  const auto names_source = [&] {
    const std::vector<Column> columns = deciding_columns(result);
    return std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.title == "from"; });
  };
  EXPECT_FALSE(names_source());
  result.rows.back().predicted->basis = "measured";
  EXPECT_TRUE(names_source());
}

TEST(Answer, ComparesPredictionsAtTheSpeedOfTheCores) {
  ExperimentResult result = sample_result();
  result.rows.resize(2);
  for (RunResult& row : result.rows) {
    row.predicted = SimulatedStep{
        .step_seconds = row.step_seconds->median / 2, .peak_memory = {}, .basis = "measured", .core_seconds = 5e-5};
    row.core_seconds = 1e-4;
  }
  result.rows[1].core_seconds.reset();
  const std::vector<Column> columns = deciding_columns(result);
  const auto cells = [&](const std::string& title) { return cells_of(columns, title); };
  ASSERT_EQ(cells("cores"), (std::vector<std::string>{"0.50", "–"}));
  EXPECT_NE(cells("predicted step")[0].find("(-13 %)"), std::string::npos) << cells("predicted step")[0];
  EXPECT_NE(cells("predicted step")[1].find("(-50 %)"), std::string::npos) << cells("predicted step")[1];
  result.rows[0].core_seconds.reset();
  EXPECT_EQ(cells_of(deciding_columns(result), "cores").at(0), "no such column") << "nothing is known";
}

TEST(Answer, ShowsEpochsOfReplicas) {
  const std::vector<Column> columns = deciding_columns(test_support::policies_sample());
  EXPECT_TRUE(std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.title == "epoch"; }));
}

/// 64 different devices would be 64 lines.
TEST(Answer, ShowsTheBatchesOfRowsThatHaveTheirOwn) {
  ExperimentResult result = sample_result();
  EXPECT_EQ(lines_of(comparison_table(result, {.width = 400}))[0].find("batch"), std::string::npos);
  EXPECT_EQ(note_on_batches(result), "");
  result.batch = 0;
  result.batch_per_device = 32;
  for (RunResult& row : result.rows) row.batch = 32 * row.devices;
  complete_comparison(result);
  const std::string text = answer(result, false, {.width = 200});
  for (const char* title : {"batch", "epoch", "speed", "scaling"})
    EXPECT_NE(lines_of(text)[0].find(title), std::string::npos) << title << ": " << text;
  EXPECT_EQ(text.find("speedup"), std::string::npos) << text;
  EXPECT_NE(text.find("per epoch"), std::string::npos) << "steps of different batches are not compared: " << text;
  for (const Column& column : deciding_columns(result)) {
    if (column.title != "batch") continue;
    EXPECT_EQ(column.unit, "samples");
    EXPECT_EQ(column.cells.front(), "32");
    EXPECT_EQ(column.cells.back(), "64");
  }
  const std::string note = note_on_batches(result);
  EXPECT_TRUE(note.starts_with("batch: 32 samples per device")) << note;
  EXPECT_TRUE(note.ends_with("in % of those of single on 1 device")) << note;
  EXPECT_EQ(batch_text(result), "32 per device");
  EXPECT_NE(summary(result).front().find("with a batch of 32 per device"), std::string::npos);
  const ExperimentResult again = from_json(to_json(result), "a test");
  EXPECT_EQ(again.batch_per_device, result.batch_per_device);
  EXPECT_EQ(again.rows.front().batch, 32);
}

TEST(Table, FoldsTheMemoryOfManyDevices) {
  ExperimentResult result = sample_result();
  result.rows.resize(2);
  std::vector<MemoryUse>& memory = result.rows[1].memory;
  memory.assign(64, memory.front());
  for (size_t d = 0; d < memory.size(); ++d) memory[d].peak = int64_t(d + 10) << 20;
  const std::vector<Column> columns = memory_columns(result, /*fold=*/true);
  EXPECT_EQ(columns[2].cells, (std::vector<std::string>{"0", "0 to 63"}));
  EXPECT_EQ(columns.back().cells.at(1), "10.0-73.0");
  EXPECT_EQ(columns[3].cells.at(1), "4.00") << "the same of all devices";
  EXPECT_EQ(memory_columns(result)[2].cells.size(), 65u) << "the report has all";
}

TEST(Table, IsPlainAsciiIfSet) {
  for (char c : comparison_table(sample_result(), {.width = 90, .utf8 = false}))
    EXPECT_LT(static_cast<unsigned char>(c), 128);
}

TEST(Table, ShowsNothingMeasuredAsNothing) {
  ExperimentResult result = sample_result();
  result.rows = {result.rows[4]};
  std::string text = comparison_table(result, {.width = 100});
  EXPECT_EQ(text.find("time per step"), std::string::npos) << text;
  EXPECT_NE(text.find("timed out"), std::string::npos);
  EXPECT_EQ(comparison_table({}, {}), "no rows\n");
}

TEST(Width, CountsCharactersNotBytes) {
  EXPECT_EQ(columns_of("µs – ok"), 7);
  EXPECT_EQ(cut_to("äöüß", 3), "äö…");
  EXPECT_EQ(cut_to("abc", 3), "abc");
  EXPECT_EQ(pad_to("é", 3, true), "  é");
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
}

TEST(Width, BreaksLongLinesOnly) {
  EXPECT_EQ(wrap_lines("one two\nthree four five\n", 10), "one two\nthree\n  four\n  five\n");
  EXPECT_EQ(wrap_lines("a  b\n\nc", 10), "a  b\n\nc") << "short lines stay as they are";
  EXPECT_EQ(wrap_lines("three four five", 0), "three four five") << "no width";
}

TEST(Width, OfWhatIsNoTerminalComesFromTheEnvironment) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::unsetenv("COLUMNS");
  EXPECT_EQ(columns_of_output(ends[1]), 80);
  EXPECT_EQ(columns_of_output(ends[1], 0), 0);
  ::setenv("COLUMNS", "132", 1);
  EXPECT_EQ(columns_of_output(ends[1], 0), 132);
  for (const char* nonsense : {"wide", "", "0", "-3", "80x"}) {
    ::setenv("COLUMNS", nonsense, 1);
    EXPECT_EQ(columns_of_output(ends[1]), 80) << nonsense;
  }
  ::unsetenv("COLUMNS");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace trireme
