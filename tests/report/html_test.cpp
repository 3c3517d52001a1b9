#include "report/html.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "sample.h"

namespace trireme {
namespace {

using ::trireme::test_support::sample_result;

/// Content of the element with the data, as a browser finds it: up to the first end tag.
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
  // markup only: Chart.js's licence names its home page in a comment
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

/// The scripts take the word from the data: they have none of their own.
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

/// Every word of block_strategies (plan/blocks.h) has a colour of its own.
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
  // begin, end, kind, stage, micro-batch, batch
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
  for (const char* id : {"workers-section", "workers-time", "workers-metric", "workers-shared", "h-workers-metric",
                         "staleness-section", "staleness"}) {
    EXPECT_EQ(count(html, fmt::format(" id=\"{}\"", id)), 1u) << id;
    EXPECT_GE(count(html, fmt::format("\"{}\"", id)), 2u) << "the script draws there: " << id;
  }
}

TEST(Html, StandsWithoutRows) { EXPECT_NE(html_report({}).find("Not measured"), std::string::npos); }

/// For looking at: TRIREME_SAMPLE_REPORT=FILE writes the sample's report there, with TRIREME_SAMPLE=segmentation or
/// policies another one's.
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
