#include "report/html.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>
#include <vector>

#include "sample.h"

namespace trireme {
namespace {

using ::trireme::test_support::sample_result;

/// Content of the element with the data. As in a browser, it ends at the first end tag.
nlohmann::json data_of(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  size_t begin = html.find(open) + open.size();
  return nlohmann::json::parse(html.substr(begin, html.find("</script", begin) - begin));
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(Html, LoadsNothing) {
  std::string html = html_report(sample_result());
  // Only the markup, because Chart.js's licence names its home page in a comment.
  std::string markup = html.substr(0, html.find("<script"));
  EXPECT_EQ(markup.find("http:"), std::string::npos);
  EXPECT_EQ(markup.find("https:"), std::string::npos);
  EXPECT_EQ(markup.find("url("), std::string::npos);
  EXPECT_EQ(count(html, "<script src"), 0u);
  EXPECT_EQ(count(html, "<link"), 0u);
  EXPECT_EQ(count(html, "@import"), 0u);
  EXPECT_NE(html.find("Chart.js v3"), std::string::npos) << "the chart library is in the file";
  EXPECT_EQ(html.find("{{"), std::string::npos) << "every part of the template is filled in";
}

TEST(Html, BeginsWithTheVerdict) {
  const std::string html = html_report(sample_result());
  const size_t strong =
      html.find("<p class=\"headline\"><strong>Fastest: data on 2 devices, 11.3 ms per step</strong>, ");
  ASSERT_NE(strong, html.npos);
  EXPECT_EQ(count(html, "Fastest: data on 2 devices"), 1u);
  for (const char* later : {"was trained on", "From the 10th", "id=\"comparison\"", "id=\"setup\""})
    EXPECT_GT(html.find(later), strong) << later;
  ExperimentResult one = sample_result();
  one.rows = {one.rows[1]};
  EXPECT_NE(html_report(one).find("<strong>data on 2 devices: 11.3 ms per step, test accuracy 98.9 %</strong>"),
            std::string::npos);
  one.rows[0].status = RunStatus::failed;
  one.rows[0].reason = "rank 1 died";
  EXPECT_NE(html_report(one).find("<strong>data on 2 devices: failed: rank 1 died</strong>"), std::string::npos);
  one.rows[0].checkpoints = CheckpointReport{.written = 2, .newest_step = 40};
  EXPECT_NE(html_report(one).find("<strong>data on 2 devices: failed: rank 1 died; the same command with --resume and "
                                  "this folder goes on after step 40</strong>"),
            std::string::npos);
}

/// Every link of the jump list leads to a section.
TEST(Html, HasASectionForEachLink) {
  const ExperimentResult result = sample_result();
  for (const std::string& html : {html_report(result), html_report({&result, "a"}, {&result, "b"})}) {
    const size_t begin = html.find("<nav id=\"jump\"");
    const std::string nav = html.substr(begin, html.find("</nav>", begin) - begin);
    const std::regex link("href=\"#([a-z-]+)\"");
    int links = 0;
    for (std::sregex_iterator at(nav.begin(), nav.end(), link), end; at != end; ++at, ++links)
      EXPECT_EQ(count(html, "<section id=\"" + (*at)[1].str() + "\""), 1u) << (*at)[1];
    EXPECT_GE(links, 10);
  }
}

/// Lines of the comparison's table have their row numbers; the script uses them to hide and colour lines.
TEST(Html, NumbersTheLinesOfTheComparison) {
  const std::string html = html_report(sample_result());
  for (int row = 0; row < 5; ++row) EXPECT_EQ(count(html, fmt::format("<tr data-row=\"{}\">", row)), 1u);
  EXPECT_EQ(data_of(html).at("rows").at(0).at("variant"), "single");
  EXPECT_EQ(data_of(html).at("fastest").at(0), 1);
}

TEST(Html, FoldsLongListsOfFailures) {
  ExperimentResult result = sample_result();
  EXPECT_EQ(html_report(result).find("<summary>6 reasons</summary>"), std::string::npos);
  for (int i = 0; i < 5; ++i) {
    result.rows.push_back(result.rows.back());
    result.rows.back().reason += "!";
  }
  EXPECT_NE(html_report(result).find("<summary>6 reasons</summary>"), std::string::npos);
}

TEST(Html, KeepsAPercentSignBesideItsNumber) {
  const std::string page = html_report(sample_result());
  EXPECT_NE(page.find("&nbsp;%</td>"), std::string::npos);
  EXPECT_EQ(page.find(" %</td>"), std::string::npos);
}

/// A comparison of 30 rows on 64 devices, each with a timeline of different workers, a long curve and evaluations.
TEST(Html, StaysBelowTwoMebibytesForManyRowsAndDevices) {
  ExperimentResult result = sample_result();
  RunResult row = result.rows[1];
  row.devices = 64;
  row.memory.assign(64, row.memory.front());
  row.busy_share.assign(64, 1.0 / 3);
  const Timeline one = *result.rows[0].timeline;
  row.timeline->workers = 64;
  row.timeline->events.clear();
  for (int rank = 0; rank < 64; ++rank)
    for (int repeat = 0; repeat < 8; ++repeat)
      for (Event event : one.events) {
        event.rank = rank;
        event.begin += repeat * 0.03 + rank * 0.01;
        event.end += repeat * 0.03 + rank * 0.01;
        row.timeline->events.push_back(event);
      }
  row.curve.clear();
  for (int s = 1; s <= 4000; ++s) row.curve.push_back({s, s, s / 7.0, 1 / (3.0 * s)});
  result.rows.assign(30, row);
  for (size_t i = 0; i < result.rows.size(); ++i) result.rows[i].name = fmt::format("variant {}", i);
  const std::string html = html_report(result);
  EXPECT_LT(html.size(), size_t(2) << 20);
  const nlohmann::json rows = data_of(html).at("rows");
  EXPECT_EQ(rows.at(0).at("timeline").at("lanes").size(), 24u);
  EXPECT_EQ(rows.at(0).at("timeline").at("note"), "24 of 64 lanes are shown; trace.json has all.");
  EXPECT_EQ(rows.at(29).at("timeline_left_out"), true) << "what is left out is said";
  EXPECT_TRUE(rows.at(29).at("timeline").is_null());
}

TEST(Html, WorkersThatDoAlikeShareALane) {
  ExperimentResult result = sample_result();
  RunResult& row = result.rows[0];
  const Timeline one = *row.timeline;
  row.timeline->events.clear();
  for (int rank = 0; rank < 64; ++rank)
    for (Event event : one.events) {
      event.rank = rank;
      if (rank >= 32) event.begin += 0.005, event.end += 0.005;
      row.timeline->events.push_back(event);
    }
  nlohmann::json timeline = data_of(html_report(result)).at("rows").at(0).at("timeline");
  EXPECT_EQ(timeline.at("lanes"), nlohmann::json::parse(R"(["workers 0 to 31", "workers 32 to 63"])"));
  EXPECT_EQ(timeline.at("events").size(), 2 * one.events.size());
  EXPECT_EQ(timeline.at("note"), "");
  std::erase_if(row.timeline->events, [](const Event& event) { return event.rank >= 8; });
  EXPECT_EQ(data_of(html_report(result)).at("rows").at(0).at("timeline").at("lanes").size(), 8u) << "few workers";
}

TEST(Html, JoinsTheCurveOfAResumedRun) {
  ExperimentResult result = sample_result();
  result.rows = {result.rows[1]};
  RunResult& row = result.rows[0];
  ReportedRun run{.result = &result, .folder = "second"};
  run.earlier.joins = {{100, "first/checkpoints/step-00000100", true}};
  run.earlier.run.curve.assign(row.curve.begin(), row.curve.begin() + 100);
  run.earlier.run.evaluations = {row.evaluations.front()};
  const nlohmann::json whole = data_of(html_report(result)).at("rows").at(0);
  row.curve.erase(row.curve.begin(), row.curve.begin() + 100);
  row.evaluations.erase(row.evaluations.begin());
  const std::string html = html_report(run);
  const nlohmann::json joined = data_of(html).at("rows").at(0);
  EXPECT_EQ(joined.at("curve"), whole.at("curve"));
  EXPECT_EQ(joined.at("evaluations"), whole.at("evaluations"));
  EXPECT_NE(html.find("The run was resumed after step 100 from first/checkpoints/step-00000100; its curves begin with "
                      "the steps of the earlier run."),
            html.npos);
  run.earlier.joins[0].known = false;
  EXPECT_NE(html_report(run).find("the steps before it are not known"), std::string::npos);
}

TEST(Html, ShowsTwoRunsSideBySide) {
  const ExperimentResult a = sample_result();
  ExperimentResult b = sample_result();
  b.batch = 256;
  b.rows[1].step_seconds = StepSeconds{0.005, 0.0049, 0.0052};
  b.rows.erase(b.rows.begin());
  const std::string html = html_report({&a, "runs/monday"}, {&b, "runs/<tuesday>"});
  EXPECT_EQ(html.find("{{"), std::string::npos);
  EXPECT_EQ(html.find("<tuesday>"), std::string::npos);
  const std::string verdict =
      "<strong>A and B are not the same training: they differ in batch. "
      "A step has 128 samples in A and 256 in B, so only times per sample can be compared. "
      "Of 4 rows in common B is faster per sample in 3, slower in 0, and 0 are too close to call. "
      "The other has no times that can be compared. "
      "The greatest difference: data on 2 devices, 4.52 times as fast per sample in B. "
      "Not all rows are ok: tensor on 2 devices timed out in A and B.</strong>";
  EXPECT_NE(html.find(verdict), html.npos) << verdict;
  for (const char* text :
       {"<h3>A: mnist, runs/monday</h3>", "<h3>B: mnist, runs/&lt;tuesday&gt;</h3>", "batch: 128 in A, 256 in B",
        "href=\"#changes\"", "<section id=\"changes\"", "4.52 times as fast", "<tr data-row=\"8\">"})
    EXPECT_NE(html.find(text), html.npos) << text;
  const nlohmann::json data = data_of(html);
  ASSERT_EQ(data.at("rows").size(), 9u);
  EXPECT_EQ(data.at("rows").at(5).at("label"), "B data on 2 devices");
  EXPECT_EQ(data.at("rows").at(5).at("run"), 1);
  EXPECT_EQ(data.at("rows").at(5).at("variant"), data.at("rows").at(1).at("variant")) << "one colour in both runs";
  EXPECT_EQ(data.at("runs").at(1).at("folder"), "runs/<tuesday>");
}

TEST(Html, ClaimsNoEqualCurvesOfAPolicyThatEndedEarly) {
  ExperimentResult result = sample_result();
  result.rows = {result.rows[1]};
  const std::string claim = "same seed gives the same curve under every ";
  EXPECT_NE(html_report(result).find(claim), std::string::npos);
  result.rows[0].strategy = "local-sgd";
  result.rows[0].status = RunStatus::failed;
  EXPECT_EQ(html_report(result).find(claim), std::string::npos);
}

TEST(Html, SaysOfTwoRunsWhetherTheirCurvesAgree) {
  const std::string same = " same seed gives the same curve under every plan",
                    not_recorded = "run.json does not record";
  const std::string differ = "A and B differ in batch and seed, so the curves of one need not agree";
  const ExperimentResult a = sample_result();
  ExperimentResult b = sample_result();
  std::string html = html_report({&a, "a"}, {&b, "b"});
  EXPECT_NE(html.find("<p>The" + same), html.npos);
  EXPECT_NE(html.find(not_recorded), html.npos);
  EXPECT_EQ(html_report(a).find(not_recorded), html.npos) << "a run has one optimizer";
  b.batch = 256;
  b.seed = 7;
  html = html_report({&a, "a"}, {&b, "b"});
  EXPECT_NE(html.find("<p>" + differ), html.npos);
  EXPECT_NE(html.find("Within a run the" + same), html.npos);
  EXPECT_EQ(html.find(not_recorded), html.npos);
  ExperimentResult one_of_a = a, one_of_b = b;
  one_of_a.rows = {a.rows[0]};
  one_of_b.rows = {b.rows[1]};
  html = html_report({&one_of_a, "a"}, {&one_of_b, "b"});
  EXPECT_NE(html.find("<p>" + differ), html.npos);
  EXPECT_EQ(html.find(same), html.npos);
  for (RunResult& row : b.rows) row.curve.clear();
  EXPECT_EQ(html_report({&a, "a"}, {&b, "b"}).find(differ), html.npos) << "there are no curves of B";
}

/// Only a segmentation has a table of classes.
TEST(Html, APartThatARunLacksHasNoHeading) {
  const ExperimentResult a = sample_result(), b = test_support::segmentation_sample();
  const auto headings = [](const ExperimentResult& first, const ExperimentResult& second) {
    const std::string html = html_report({&first, "a"}, {&second, "b"});
    const size_t begin = html.find("<section id=\"metric-section\"");
    const std::string section = html.substr(begin, html.find("</section>", begin) - begin);
    return std::pair(count(section, "<h3>A: "), count(section, "<h3>B: "));
  };
  EXPECT_EQ(headings(a, a), (std::pair<size_t, size_t>(0, 0)));
  EXPECT_EQ(headings(a, b), (std::pair<size_t, size_t>(0, 1)));
  EXPECT_EQ(headings(b, b), (std::pair<size_t, size_t>(1, 1)));
}

/// Colours of strategies have no other meaning: colours of kinds of work, memory and parallelism are different.
TEST(Html, NoOtherMeaningHasAStrategysColour) {
  const std::string html = html_report(sample_result());
  const auto colours_of = [&](const std::string& name, const std::string& end) {
    const size_t begin = html.find(name + " = ");
    EXPECT_NE(begin, html.npos) << name;
    const std::string text = html.substr(begin, html.find(end, begin) - begin);
    std::vector<std::string> colours;
    const std::regex colour("colour: \"(#[0-9a-f]{6})\"|[ :\\[]\"?\"(#[0-9a-f]{6})\"");
    for (std::sregex_iterator at(text.begin(), text.end(), colour), last; at != last; ++at)
      colours.push_back((*at)[1].matched ? (*at)[1].str() : (*at)[2].str());
    return colours;
  };
  const std::vector<std::string> strategies = colours_of("STRATEGY_COLOURS", "];");
  EXPECT_EQ(strategies.size(), 7u);
  for (const auto& [name, end] :
       {std::pair("KIND_COLOURS", "};"), std::pair("BOX_KINDS", "};"), std::pair("GOT_KINDS", "};"),
        std::pair("MEMORY_KINDS", "};"), std::pair("SPLIT_KINDS", "]];")}) {
    const std::vector<std::string> others = colours_of(name, end);
    EXPECT_GE(others.size(), 4u) << name;
    for (const std::string& colour : others)
      EXPECT_EQ(std::count(strategies.begin(), strategies.end(), colour), 0) << name << ": " << colour;
  }
}

/// The script adds a table to charts that have none in the page.
TEST(Html, HasATableForEveryChart) {
  const std::string html = html_report(sample_result());
  for (const char* chart : {"time", "speedup-chart", "split", "metric-chart", "staleness-charts"})
    EXPECT_NE(html.find(fmt::format("\"{}\", ", chart)), html.npos) << chart;
  for (const char* table : {"setTable(\"time\"", "setTable(\"speedup-chart\"", "setTable(\"split\"",
                            "curveTable(\"metric-chart\"", "curveTable(id", "setTable(\"staleness-charts\"",
                            "setTable(box.id, `Time of one step", "setTable(box.id, `Nominal schedule"})
    EXPECT_NE(html.find(table), html.npos) << table;
  for (const char* written :
       {"Memory of each device at its peak, by category</caption>", "Strategy of each block</caption>"})
    EXPECT_EQ(count(html, written), 1u) << written;
}

TEST(Html, OfASimulationSaysNothingOfTraining) {
  const std::string trained = html_report(sample_result());
  ExperimentResult result = sample_result();
  for (RunResult& row : result.rows) row.status = RunStatus::ok;
  result.simulated = "8 devices";
  const std::string simulated = html_report(result);
  for (const char* text : {"10th to the 90th percentile", "one step as measured", "Runs that did not end normally"}) {
    EXPECT_NE(trained.find(text), std::string::npos) << text;
    EXPECT_EQ(simulated.find(text), std::string::npos) << text;
  }
  for (const char* section : {"h-loss", "h-metric"}) {
    EXPECT_NE(trained.find(fmt::format("aria-labelledby=\"{}\">", section)), std::string::npos) << section;
    EXPECT_NE(simulated.find(fmt::format("aria-labelledby=\"{}\" hidden>", section)), std::string::npos) << section;
  }
  EXPECT_NE(simulated.find("All rows could be simulated."), std::string::npos);
  EXPECT_EQ(simulated.find("All runs ended normally."), std::string::npos);
}

/// The scripts take this word from the data; they do not contain it.
TEST(Html, SaysWhetherTimesAreMeasuredModelledOrSimulated) {
  ExperimentResult result = sample_result();
  result.rows[2].backend = "virtual";
  std::string html = html_report(result);
  EXPECT_EQ(data_of(html).at("rows").at(0).at("times_are"), "measured");
  EXPECT_EQ(data_of(html).at("rows").at(2).at("times_are"), "modelled");
  EXPECT_NE(html.find("one step as measured or modelled"), std::string::npos);
  EXPECT_EQ(html.find("Measured:"), std::string::npos) << "a title that is not always true";
  EXPECT_NE(html.find("row.times_are"), std::string::npos) << "titles of timelines";
  result.simulated = "8 devices";
  html = html_report(result);
  for (const auto& row : data_of(html).at("rows")) EXPECT_EQ(row.at("times_are"), "simulated");
  EXPECT_NE(html.find("one step as simulated"), std::string::npos);
  const std::string markup = html.substr(0, html.find("<script"));
  EXPECT_EQ(markup.find("measured"), std::string::npos) << markup;
}

TEST(Html, SaysOfUpdatePoliciesThatCurvesDiffer) {
  const std::string same = "The same seed gives the same curve under every ", differ = "such curves differ";
  ExperimentResult result = sample_result();
  std::string html = html_report(result);
  EXPECT_NE(html.find(same + "plan"), std::string::npos);
  EXPECT_EQ(html.find(differ), std::string::npos);
  const ExperimentResult policies = test_support::policies_sample();
  html = html_report(policies);
  EXPECT_EQ(html.find(same), std::string::npos);
  EXPECT_NE(html.find(differ), std::string::npos);
  result.rows.push_back(policies.rows[1]);
  html = html_report(result);
  EXPECT_NE(html.find(same + "other plan"), std::string::npos);
  EXPECT_NE(html.find(differ), std::string::npos);
}

TEST(Html, ShowsRowsReasonsAndWarnings) {
  std::string html = html_report(sample_result());
  for (const char* text : {"data 2 x tensor 2", "timed out", "no step in 60 s", "4 workers share 2 cores",
                           "Fastest: data on 2 devices", "<caption>", "scope=\"col\"", "libtorch 1.13.1"})
    EXPECT_NE(html.find(text), std::string::npos) << text;
}

TEST(Html, EscapesHostileNames) {
  ExperimentResult result = sample_result();
  std::string hostile = "</script><script>alert(1)</script><!--{{data}}";
  size_t scripts = count(html_report(result), "</script>");
  result.experiment = hostile;
  result.rows[4].reason = hostile;
  result.rows[0].strategy = hostile;
  result.rows[0].timeline->events[0].name = hostile;
  std::string html = html_report(result);
  EXPECT_EQ(count(html, "</script>"), scripts);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  EXPECT_EQ(data_of(html).at("experiment"), hostile);
}

TEST(Html, CarriesTimelinesAndShortCurves) {
  ExperimentResult result = sample_result();
  result.rows[0].curve.clear();
  for (int s = 1; s <= 100000; ++s) result.rows[0].curve.push_back({s, s, s * 1.0, std::nan("")});
  nlohmann::json data = data_of(html_report(result));
  const nlohmann::json& row = data.at("rows").at(0);
  EXPECT_LE(row.at("curve").size(), 2001u);
  EXPECT_EQ(row.at("curve").back().at(0), 100000) << "the last point stays";
  EXPECT_TRUE(row.at("curve").back().at(2).is_null());
  EXPECT_EQ(row.at("timeline").at("events").size(), result.rows[0].timeline->events.size());
  EXPECT_EQ(data.at("seed"), "18446744073709551615");
}

TEST(Html, KnowsTheMetricsOfTheTask) {
  const nlohmann::json accuracy = data_of(html_report(sample_result())).at("metrics");
  EXPECT_EQ(accuracy, nlohmann::json::parse(R"([{"name": "accuracy", "title": "accuracy", "is_share": true}])"));
  const std::string html = html_report(test_support::segmentation_sample());
  const nlohmann::json data = data_of(html);
  ASSERT_EQ(data.at("metrics").size(), 2u) << "single classes are in the table";
  EXPECT_EQ(data.at("metrics").at(0).at("title"), "mean IoU");
  EXPECT_EQ(data.at("rows").at(0).at("evaluations").at(0).at("metrics").at(2).at("name"), "iou.0");
  EXPECT_NE(html.find("Test set, by class"), std::string::npos);
  EXPECT_EQ(html_report(sample_result()).find("Test set, by class"), std::string::npos);
}

TEST(Html, HasAColourForEveryKindOfEvent) {
  const std::string html = html_report(sample_result());
  const size_t begin = html.find("KIND_COLOURS = {");
  const std::string colours = html.substr(begin, html.find('}', begin) - begin);
  for (EventKind kind : all_event_kinds())
    EXPECT_NE(colours.find(std::string(" ") + name_of(kind) + ": \"#"), std::string::npos) << name_of(kind);
}

TEST(Html, ShowsWhatEachBlockGot) {
  const std::string html = html_report(sample_result());
  EXPECT_EQ(data_of(html).at("rows").at(2).at("blocks").at(2),
            nlohmann::json::parse(R"({"block": "layer1.1", "layers": 4, "stage": 1, "strategy": "one device"})"));
  EXPECT_EQ(data_of(html).at("rows").at(4).at("blocks"), nlohmann::json::array()) << "it had no plan";
  const size_t begin = html.find("Strategy of each block</caption>");
  ASSERT_NE(begin, html.npos);
  const std::string table = html.substr(begin, html.find("</table>", begin) - begin);
  EXPECT_EQ(count(table, "<tr>"), 1u + 1 + 2 + 2 + 3)
      << "blocks that follow each other and got the same share a line: " << table;
  for (const char* cell : {"<td>layer1.0 to top</td><td class=\"n\">14</td><td>one device</td>",
                           "<td>top</td><td class=\"n\">2</td><td>data 2, tensor 2</td>",
                           "<td class=\"n\">1</td><td>layer1.1 to top</td><td class=\"n\">6</td><td>one device</td>"})
    EXPECT_NE(table.find(cell), table.npos) << cell;
}

/// Every word of block_strategies (plan/blocks.h) has its own colour.
TEST(Html, HasAColourForEveryKindOfParallelism) {
  const std::string html = html_report(sample_result());
  const size_t begin = html.find("GOT_KINDS = {");
  const std::string colours = html.substr(begin, html.find("};", begin) - begin);
  for (const char* kind : {"data", "tensor", "both", "copies", "stage", "alone"})
    EXPECT_TRUE(std::regex_search(
        colours, std::regex(std::string(" ") + kind + ": \\{ name: \"[^\"]+\", colour: \"#[0-9a-f]{6}\"")))
        << kind;
}

TEST(Html, CarriesSchedulesAsListsOfBoxes) {
  const nlohmann::json data = data_of(html_report(sample_result()));
  EXPECT_TRUE(data.at("rows").at(0).at("schedule").is_null());
  const nlohmann::json& schedule = data.at("rows").at(2).at("schedule");
  EXPECT_DOUBLE_EQ(schedule.at("bubble"), 1.0 / 3);
  EXPECT_EQ(schedule.at("rows").at(1).at("label"), "worker 1, stage 1");
  // A box is begin, end, kind, stage, micro-batch, batch.
  EXPECT_EQ(schedule.at("rows").at(1).at("boxes"),
            nlohmann::json::parse(R"([[1, 2, "forward", 1, 0, 0], [2, 3, "forward", 1, 1, 0],
                                      [3, 5, "backward", 1, 1, 0], [5, 7, "backward", 1, 0, 0]])"));
}

TEST(Html, HasTheCountsOfReplicas) {
  const std::string html = html_report(test_support::policies_sample());
  const nlohmann::json rows = data_of(html).at("rows");
  EXPECT_EQ(rows.at(4).at("replicas").at("staleness"), nlohmann::json(std::vector<int>(8, 10)));
  EXPECT_EQ(rows.at(4).at("replicas").at("clock"), "modelled");
  EXPECT_EQ(rows.at(0).at("name"), "local-sgd") << "lines over workers are labelled by it";
  for (const char* id : {"workers", "workers-time", "workers-metric", "workers-shared", "h-workers-metric", "staleness",
                         "staleness-charts"}) {
    EXPECT_EQ(count(html, fmt::format(" id=\"{}\"", id)), 1u) << id;
    EXPECT_GE(count(html, fmt::format("\"{}\"", id)), 2u) << "the script draws there: " << id;
  }
}

TEST(Html, StandsWithoutRows) {
  const std::string html = html_report(ExperimentResult());
  const std::string markup = html.substr(0, html.find("<script"));
  EXPECT_EQ(count(markup, "No row has a time that can be compared."), 1u);
  EXPECT_EQ(count(markup, "All runs ended normally."), 1u);
  EXPECT_TRUE(data_of(html).at("rows").empty());
}

/// To look at a report: TRIREME_SAMPLE_REPORT=FILE writes the sample's report to FILE; TRIREME_SAMPLE=segmentation or
/// policies chooses another sample.
TEST(Html, WritesTheSampleWhereAsked) {
  const char* path = std::getenv("TRIREME_SAMPLE_REPORT");
  if (!path) GTEST_SKIP() << "TRIREME_SAMPLE_REPORT names no file";
  std::ofstream out(path);
  const char* sample = std::getenv("TRIREME_SAMPLE");
  const std::string name = sample ? sample : "";
  out << html_report(name == "segmentation" ? test_support::segmentation_sample()
                     : name == "policies"   ? test_support::policies_sample()
                                            : sample_result());
  EXPECT_TRUE(out.good());
}

}  // namespace
}  // namespace trireme
