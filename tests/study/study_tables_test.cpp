#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "study/page.h"

namespace trireme {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A row of 10 steps of 8 samples.
RunResult row_of(const char* strategy, int devices, double seconds, double accuracy) {
  RunResult row;
  row.strategy = row.name = strategy;
  row.devices = devices;
  row.samples_per_second = 80 / seconds;
  row.step_seconds = StepSeconds{seconds / 10, seconds / 11, seconds / 9, {}};
  row.epoch_seconds = seconds;
  row.memory.assign(size_t(devices), MemoryUse{.current = {}, .at_peak = {}, .peak = 4096 / devices});
  row.busy_share.assign(size_t(devices), 0.5);
  row.bytes_per_step = 100;
  row.curve.push_back({10, 80, seconds, 0.5});
  row.evaluations.push_back({10, 80, 1.0, seconds, 0.4, {{"accuracy", accuracy}}});
  row.test = row.evaluations.back();
  return row;
}

StudyRows sample_rows() {
  StudyRows rows;
  rows.result.experiment = "small";
  rows.result.rows = {row_of("single", 1, 4, 0.98), row_of("data", 2, 2.5, 0.97), row_of("easgd", 1, 5, 0.96),
                      row_of("easgd", 2, 2, 0.90)};
  rows.result.rows[3].replicas = ReplicaReport{.replicas = 2, .idle_share = 0.25, .bytes = 4096, .staleness = {1, 3}};
  return rows;
}

std::vector<std::string> titles_of(const std::vector<Column>& columns) {
  std::vector<std::string> titles;
  titles.reserve(columns.size());
  for (const Column& column : columns) titles.push_back(column.title);
  return titles;
}

TEST(StudyQuantities, FollowFromTheRows) {
  const StudyRows rows = sample_rows();
  EXPECT_DOUBLE_EQ(quantity_of("time", rows, 1).value(), 2.5);
  EXPECT_DOUBLE_EQ(quantity_of("speedup", rows, 1).value(), 4 / 2.5);  // over single
  EXPECT_DOUBLE_EQ(quantity_of("speedup", rows, 3).value(), 5 / 2.0);  // over easgd on one device
  EXPECT_DOUBLE_EQ(quantity_of("efficiency", rows, 3).value(), 5 / 2.0 / 2);
  EXPECT_DOUBLE_EQ(quantity_of("time saved", rows, 3).value(), 1 - 2 / 5.0);
  EXPECT_NEAR(quantity_of("lost", rows, 3).value(), 0.06, 1e-12);
  EXPECT_DOUBLE_EQ(quantity_of("sent", rows, 1).value(), 100.0 * 10 * 2);
  EXPECT_DOUBLE_EQ(quantity_of("sent", rows, 3).value(), 4096);
  EXPECT_DOUBLE_EQ(quantity_of("staleness", rows, 3).value(), 0.75);
  EXPECT_DOUBLE_EQ(quantity_of("waiting", rows, 3).value(), 0.25);
  EXPECT_EQ(quantity_of("waiting", rows, 1), std::nullopt);
  EXPECT_EQ(quantity_of("time to target", rows, 1), std::nullopt);
  for (const std::string& name : quantity_names()) EXPECT_NO_THROW(quantity_of(name, rows, 0)) << name;
}

TEST(StudyQuantities, LostIsPositiveWhereAnErrorGrows) {
  StudyRows rows = sample_rows();
  for (RunResult& row : rows.result.rows) row.test->metrics.front().name = "rmse";
  rows.result.rows[3].test->metrics.front().value = 2;
  EXPECT_NEAR(quantity_of("lost", rows, 3).value(), 2 - 0.96, 1e-12);
}

TEST(StudyTables, ShowMeansAndSpreadsOfSeeds) {
  StudyRows rows = sample_rows();
  rows.result.seed = 1;
  for (const double accuracy : {0.95, 0.99}) {
    rows.more_seeds.push_back(rows.result);
    rows.more_seeds.back().seed = rows.more_seeds.size() + 1;
    rows.more_seeds.back().rows[1].test->metrics.front().value = accuracy;
  }
  EXPECT_DOUBLE_EQ(quantity_of("result", rows, 1).value(), 0.97);
  EXPECT_NEAR(spread_of("result", rows, 1).value(), 0.02, 1e-12);  // of 0.97, 0.95 and 0.99
  EXPECT_NEAR(quantity_of("lost", rows, 1).value(), 0.01, 1e-12);
  EXPECT_EQ(spread_of("result", sample_rows(), 1), std::nullopt);
  const StudyRun run{.name = "a", .title = "A", .experiment = "e.toml"};
  const StudyPart part{.title = "x", .table = {"result", "devices"}};
  EXPECT_THAT(part_table(part, shown_rows(part, run, rows))[1].cells,
              ElementsAre("98.0 ± 0.0", "97.0 ± 2.0", "96.0 ± 0.0", "90.0 ± 0.0"));
  EXPECT_THAT(part_table(part, shown_rows(part, run, rows))[2].cells, ElementsAre("1", "2", "1", "2"));
  rows.more_seeds[1].rows[1].status = RunStatus::failed;
  rows.more_seeds[1].rows[1].reason = "disk full";
  EXPECT_EQ(quantity_of("result", rows, 1), std::nullopt);
  EXPECT_THAT(part_table(part, shown_rows(part, run, rows)).back().cells,
              ElementsAre("ok", "seed 3: failed: disk full", "ok", "ok"));
}

TEST(StudyTables, HaveOurNumbersBesidePublishedOnes) {
  StudyRun run{.name = "a", .title = "A", .experiment = "e.toml"};
  StudyPart part{.title = "Times", .devices = {2}, .table = {"time saved", "result"}};
  part.published = {{"a", "easgd", 2, "time saved", 0.95}, {"b", "data", 2, "time saved", 0.5}};
  const StudyRows rows = sample_rows();
  const std::vector<Column> columns = part_table(part, shown_rows(part, run, rows));
  EXPECT_THAT(titles_of(columns), ElementsAre("strategy", "time saved", "time saved, published", "accuracy"));
  EXPECT_THAT(columns[0].cells, ElementsAre("data", "easgd"));
  EXPECT_THAT(columns[1].cells, ElementsAre("37.5", "60.0"));
  EXPECT_THAT(columns[2].cells, ElementsAre("–", "95.0")) << "of another run: not shown";
  EXPECT_EQ(columns[3].unit, "%");
}

TEST(StudyTables, ShowWhatTimeCostsOnEachMachine) {
  const StudyRun run{.name = "a", .title = "A", .experiment = "e.toml"};
  StudyRows rows = sample_rows();
  rows.result.rows[3].replicas->clock = "modelled";
  StudyPart part{.title = "Money", .table = {"price of an epoch", "price to target"}};
  for (const auto& [name, per_hour] : {std::pair{"small", 36.0}, std::pair{"large", 7200.0}}) {
    InstancePrice& price = part.prices.emplace_back();
    price.name = name;
    price.provider = "P";
    price.per_hour = per_hour;
    price.currency = "EUR";
  }
  const std::vector<Column> columns = part_table(part, shown_rows(part, run, rows));
  EXPECT_THAT(titles_of(columns),
              ElementsAre("strategy", "devices", "price of an epoch, P small", "price of an epoch, P large"))
      << "no row reached a target";
  EXPECT_THAT(columns[2].cells,
              ElementsAre("0.0400", "0.0250", "0.0500", "–"));  // 4, 2.5 and 5 s; the last is modelled
  EXPECT_THAT(columns[3].cells, ElementsAre("8.00", "5.00", "10.0", "–"));
  EXPECT_EQ(columns[3].unit, "EUR");
}

TEST(StudyTables, ShowWhatWasChosenAndWhatFailed) {
  StudyRows rows = sample_rows();
  rows.chosen = {"0.1", "0.1", "0.3", "–"};
  rows.result.rows[3].status = RunStatus::failed;
  rows.result.rows[3].reason = "no trial ended";
  const StudyRun run{.name = "a", .title = "A", .experiment = "e.toml", .tuning = Tuning{.key = "optimizer.rate"}};
  const StudyPart part{.title = "x", .table = {"time"}};
  const std::vector<Column> columns = part_table(part, shown_rows(part, run, rows));
  EXPECT_THAT(titles_of(columns), ElementsAre("strategy", "devices", "rate", "time", "status"));
  EXPECT_EQ(columns.back().cells.back(), "failed: no trial ended");
  const StudyPart none{.title = "x", .strategies = {"none"}, .table = {"time"}};
  EXPECT_TRUE(part_table(none, shown_rows(none, run, rows)).empty());
}

TEST(StudyCharts, HaveASetPerStrategyAndPublishedPoints) {
  const StudyRun run{.name = "a", .title = "A", .experiment = "e.toml"};
  StudyPart part{.title = "x", .table = {"time saved"}};
  part.published = {{"", "easgd", 2, "time saved", 0.95}};
  const StudyRows rows = sample_rows();
  const std::vector<ShownRow> shown = shown_rows(part, run, rows);
  const nlohmann::json chart = chart_json(part, {ChartKind::lines, "devices", "time saved"}, shown);
  ASSERT_EQ(chart["sets"].size(), 4u);
  EXPECT_EQ(chart["sets"][2]["name"], "easgd");
  EXPECT_EQ(chart["sets"][2]["points"].size(), 2u);
  EXPECT_EQ(chart["sets"][3]["name"], "easgd, published");
  EXPECT_DOUBLE_EQ(chart["sets"][3]["points"][0]["y"], 95);
  EXPECT_EQ(chart["y"]["unit"], "%");
  const nlohmann::json curves = chart_json(part, {ChartKind::progress, "epochs", "result"}, shown);
  ASSERT_EQ(curves["sets"].size(), 4u);
  EXPECT_EQ(curves["sets"][3]["name"], "easgd on 2 devices");
  EXPECT_DOUBLE_EQ(curves["sets"][3]["points"][0]["y"], 90);
}

/// Two runs; the second compares itself with the first.
struct TwoRuns {
  std::vector<StudyRun> runs{{.name = "a", .title = "A", .experiment = "e.toml"},
                             {.name = "b", .title = "B", .experiment = "e.toml", .base = "a"}};
  std::vector<StudyRunResult> results{{.rows = sample_rows()}, {.rows = {}}};

  TwoRuns() {
    results[1].rows.result.rows = {row_of("single", 1, 40, 0.5), row_of("easgd", 4, 1, 0.93),
                                   row_of("hogwild", 4, 0.5, 0.5)};
    link_bases(runs, results);
  }
};

TEST(StudyQuantities, MayBeComparedWithAnotherRun) {
  TwoRuns two;
  const StudyRows& rows = two.results[1].rows;
  EXPECT_DOUBLE_EQ(quantity_of("time saved", rows, 1).value(), 1 - 1 / 5.0) << "easgd on one device";
  EXPECT_NEAR(quantity_of("lost", rows, 1).value(), 0.03, 1e-12);
  EXPECT_DOUBLE_EQ(quantity_of("time saved", rows, 2).value(), 1 - 0.5 / 4) << "single: there is no hogwild";
  EXPECT_DOUBLE_EQ(quantity_of("time saved", two.results[0].rows, 3).value(), 1 - 2 / 5.0) << "has its own";
  std::erase_if(two.results[0].rows.result.rows, [](const RunResult& row) { return row.devices == 1; });
  EXPECT_EQ(quantity_of("time saved", rows, 1), std::nullopt) << "its own row on one device is not the base";
}

TEST(StudyQuantities, OfABaseRunAreComparedBySeed) {
  TwoRuns two;
  for (StudyRunResult& result : two.results) result.rows.more_seeds.push_back(result.rows.result);
  two.results[0].rows.more_seeds[0].rows[2].test->metrics.front().value = 0.99;  // easgd on one device
  EXPECT_NEAR(quantity_of("lost", two.results[1].rows, 1).value(), (0.03 + 0.06) / 2, 1e-12);
}

TEST(StudyTables, ShowRunsTogether) {
  const TwoRuns two;
  const StudyPart part{.title = "x", .strategies = {"easgd"}, .together = true, .table = {"lost"}};
  std::vector<ShownRow> shown = shown_rows(part, two.runs[0], two.results[0].rows);
  for (const ShownRow& row : shown_rows(part, two.runs[1], two.results[1].rows)) shown.push_back(row);
  const std::vector<Column> columns = part_table(part, shown);
  EXPECT_THAT(titles_of(columns), ElementsAre("run", "strategy", "devices", "lost"));
  EXPECT_THAT(columns[0].cells, ElementsAre("A", "A", "B"));
  EXPECT_THAT(columns[3].cells, ElementsAre("0", "6.00", "3.00"));
  const nlohmann::json chart = chart_json(part, {ChartKind::points, "time saved", "lost"}, shown);
  ASSERT_EQ(chart["sets"].size(), 2u) << "a set per run";
  EXPECT_EQ(chart["sets"][1]["name"], "B");
  EXPECT_EQ(chart["sets"][1]["points"][0]["of"], "B, easgd on 4 devices");
}

TEST(StudyTables, SumAQuantityOverRuns) {
  const StudyRun a{.name = "a", .title = "A", .experiment = {}}, b{.name = "b", .title = "B", .experiment = {}};
  StudyRows of_a, of_b;
  of_a.result.rows = {row_of("data", 2, 4, 0.9), row_of("exact", 1, 1, 0.9), row_of("tensor", 2, 5, 0.9)};
  of_b.result.rows = {row_of("data", 2, 2, 0.9), row_of("exact", 2, 1.5, 0.9)};
  const StudyPart part{.title = "x", .together = true, .sum = "time"};
  std::vector<ShownRow> shown = shown_rows(part, a, of_a);
  for (const ShownRow& row : shown_rows(part, b, of_b)) shown.push_back(row);
  const std::vector<Column> columns = part_sum(part, shown);
  EXPECT_THAT(titles_of(columns), ElementsAre("strategy", "devices", "A", "B", "all"));
  EXPECT_THAT(columns[0].cells, ElementsAre("data", "exact", "tensor", "the least of each run"));
  EXPECT_THAT(columns[1].cells, ElementsAre("2", "1 to 2", "2", ""));
  EXPECT_THAT(columns[2].cells, ElementsAre("4.00", "1.00", "5.00", "1.00"));
  EXPECT_THAT(columns[3].cells, ElementsAre("2.00", "1.50", "–", "1.50"));
  EXPECT_THAT(columns[4].cells, ElementsAre("6.00", "2.50", "–", "2.50"));
  EXPECT_TRUE(part_sum({.title = "x"}, shown).empty());
}

TEST(StudyTables, ShowTheStrategyOfEachBlock) {
  StudyRows rows = sample_rows();
  rows.result.rows[1].strategy = rows.result.rows[1].name = "asa";
  rows.result.rows[1].blocks = {{"a", 2, 0, "data 2"}, {"b", 1, 0, "data 2"}, {"c", 3, 0, "tensor 2"}};
  const StudyRun run{.name = "a", .title = "A", .experiment = "e.toml"};
  StudyPart part{.title = "x", .blocks = true};
  const std::vector<ShownRow> shown = shown_rows(part, run, rows);
  const std::vector<Column> columns = part_blocks(part, shown);
  EXPECT_THAT(titles_of(columns),
              ElementsAre("strategy", "devices", "stage", "blocks", "layers", "strategy of the blocks"));
  EXPECT_THAT(columns[3].cells, ElementsAre("a to b", "c"));
  EXPECT_THAT(columns[4].cells, ElementsAre("3", "3"));
  part.blocks = false;
  EXPECT_TRUE(part_blocks(part, shown).empty());
}

TEST(StudyAdvice, NamesTheRowsForEachAim) {
  const std::vector<std::string> advice = advice_of(sample_rows());
  EXPECT_THAT(advice, Contains(HasSubstr("Fastest: easgd on 2 devices")));
  EXPECT_THAT(advice, Contains(HasSubstr("best test accuracy: single on 1 device, 98.0 %")));
  EXPECT_THAT(advice, Contains(HasSubstr("Least memory per device: data on 2 devices, 2.00 KiB")));
  EXPECT_THAT(advice, Not(Contains(HasSubstr("Cheapest")))) << "there are no prices";
}

TEST(StudyPage, SaysOnceWhatIsAReconstruction) {
  Study study{.name = "s", .title = "S", .source = "", .about = {}, .runs = {}, .parts = {}};
  study.runs = {{.name = "a", .title = "A", .experiment = "e.toml"}};
  study.parts = {{.title = "Times", .table = {"time"}}, {.title = "Blocks", .blocks = true}};
  StudyResult result{.study = &study, .size = StudySize::usual, .runs = {}};
  result.runs = {{.rows = sample_rows(), .folder = "a"}};
  for (const size_t row : {1, 3}) result.runs[0].rows.result.rows[row].strategy = "asa";
  const std::string page = study_page(result), note = "asa: a reconstruction of a published strategy";
  const size_t first = page.find(note);
  ASSERT_NE(first, page.npos);
  EXPECT_EQ(page.find(note, first + 1), page.npos);
}

TEST(StudyPage, SaysWhatCouldNotBeHad) {
  Study study{.name = "s",
              .title = "A <study>",
              .source = "A. Author, 2020",
              .about = {"About & so on"},
              .runs = {},
              .parts = {}};
  study.runs = {{.name = "a", .title = "A", .experiment = "e.toml"},
                {.name = "b", .title = "B", .experiment = "f.toml"}};
  study.parts = {
      {.title = "Times", .table = {"time"}, .charts = {{ChartKind::lines, "devices", "time"}}, .advice = true}};
  StudyResult result{.study = &study, .size = StudySize::quick, .runs = {}};
  result.runs = {{.rows = sample_rows(), .folder = "a"}, {.rows = {}, .problem = "no data <here>", .folder = "b"}};
  const std::string page = study_page(result);
  EXPECT_THAT(page, HasSubstr("A &lt;study&gt;"));
  EXPECT_THAT(page, HasSubstr("B: could not be had: no data &lt;here&gt;"));
  EXPECT_THAT(page, HasSubstr("<a href=\"a/report.html\">A</a>"));
  EXPECT_THAT(page, HasSubstr("id=\"chart-0-0-0\""));
  EXPECT_THAT(page, HasSubstr("quick form"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  const nlohmann::json json = study_json(result);
  EXPECT_EQ(json["parts"][0]["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][1]["problem"], "no data <here>");
  EXPECT_THAT(study_answer(result), Contains("B: could not be had: no data <here>"));
}

}  // namespace
}  // namespace trireme
