#include "report/run_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sample.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;
using test_support::sample_result;

TEST(RunJson, HoldsTheNamesThatScriptsRelyOn) {
  json j = json::parse(json_text(to_json(sample_result())));
  EXPECT_EQ(j.at("schema"), 2);
  EXPECT_EQ(j.at("experiment"), "mnist");
  const json& row = j.at("rows").at(1);
  EXPECT_EQ(row.at("strategy"), "data");
  EXPECT_EQ(row.at("status"), "ok");
  EXPECT_TRUE(row.at("reason").is_null());
  EXPECT_EQ(row.at("devices"), 2);
  EXPECT_DOUBLE_EQ(row.at("step_seconds").at("median"), 0.0113);
  EXPECT_DOUBLE_EQ(row.at("step_seconds").at("p10"), 0.0113 * 0.95);
  EXPECT_DOUBLE_EQ(row.at("step_seconds").at("p90"), 0.0113 * 1.2);
  EXPECT_DOUBLE_EQ(row.at("epoch_seconds"), 469 * 0.0113);
  EXPECT_DOUBLE_EQ(row.at("samples_per_second"), 128 / 0.0113);
  EXPECT_TRUE(row.at("scaling_efficiency").is_number());
  EXPECT_EQ(row.at("busy_share").size(), 2u);
  EXPECT_DOUBLE_EQ(row.at("communication").at("exposed_share"), 0.081);
  EXPECT_DOUBLE_EQ(row.at("communication").at("hidden_share"), 0.104);
  EXPECT_EQ(row.at("communication").at("bytes_per_step"), 4811304);
  const json& memory = row.at("memory_bytes").at(1);
  int64_t sum = 0;
  for (const char* name : {"weights", "gradients", "optimizer", "activations", "buffers"})
    sum += memory.at(name).get<int64_t>();
  EXPECT_EQ(memory.at("peak"), sum) << "the split is the one at the peak";
  EXPECT_TRUE(row.at("test").at("loss").is_number());
  EXPECT_EQ(row.at("test").at("metrics").at(0).at("name"), "accuracy");
  EXPECT_TRUE(row.at("test").at("metrics").at(0).at("value").is_number());
  EXPECT_EQ(row.at("target"), 0.98);
  EXPECT_DOUBLE_EQ(row.at("loading_share"), 0.004);
  EXPECT_EQ(row.at("to_target").at("steps"), 300);
  EXPECT_TRUE(row.at("to_target").at("epochs").is_number());
  EXPECT_TRUE(row.at("to_target").at("seconds").is_number());
  EXPECT_EQ(row.at("curve").at(0).at("step"), 1);
  EXPECT_EQ(row.at("curve").at(0).at("samples"), 128);
  EXPECT_TRUE(row.at("curve").at(0).contains("seconds"));
  EXPECT_TRUE(row.at("curve").at(0).contains("loss"));
  EXPECT_FALSE(row.contains("timeline")) << "timelines are in trace.json";
}

TEST(RunJson, KeepsTheSpeedOfCoresAndMemory) {
  ExperimentResult result = sample_result();
  RunResult& row = result.rows[1];
  row.core_seconds = 6e-5;
  row.predicted = SimulatedStep{.step_seconds = 0.01, .peak_memory = {}, .basis = "measured", .core_seconds = 5e-5};
  row.memory_speed = 1e10;
  row.predicted->memory_speed = 3e10;
  const ExperimentResult read = from_json(to_json(result));
  EXPECT_EQ(read.rows[1].memory_speed, 1e10);
  EXPECT_EQ(read.rows[1].predicted->memory_speed, 3e10);
  EXPECT_FALSE(read.rows[0].memory_speed);
  EXPECT_EQ(read.rows[1].core_seconds, 6e-5);
  EXPECT_EQ(read.rows[1].predicted->core_seconds, 5e-5);
  EXPECT_FALSE(read.rows[0].core_seconds);
}

TEST(RunJson, WritesNullForWhatWasNotMeasured) {
  json row = to_json(sample_result()).at("rows").at(4);
  EXPECT_EQ(row.at("status"), "timed out");
  EXPECT_EQ(row.at("reason"), "no step in 60 s; raise --time-limit");
  for (const char* name :
       {"step_seconds", "epoch_seconds", "samples_per_second", "scaling_efficiency", "test", "to_target"})
    EXPECT_TRUE(row.at(name).is_null()) << name;
  EXPECT_TRUE(row.at("communication").at("bytes_per_step").is_null());
  EXPECT_TRUE(row.at("memory_bytes").empty());
}

TEST(RunJson, RowsAreReadBackComplete) {
  for (const RunResult& row : sample_result().rows) {
    json there = row_to_json(row);
    RunResult back = row_from_json(json::parse(json_text(there)));
    EXPECT_EQ(row_to_json(back), there);
    ASSERT_EQ(back.timeline.has_value(), row.timeline.has_value());
    if (!row.timeline) continue;
    EXPECT_EQ(back.timeline->events.size(), row.timeline->events.size());
    EXPECT_EQ(back.timeline->events.back().kind, row.timeline->events.back().kind);
    EXPECT_EQ(back.curve.back().loss, row.curve.back().loss);  // every bit
    EXPECT_EQ(back.memory[0].current, row.memory[0].current);
    EXPECT_EQ(back.memory[0].at_peak, row.memory[0].at_peak);
    EXPECT_EQ(back.test_at_equal_time->step, 300);
    EXPECT_EQ(back.target, 0.98);
    EXPECT_EQ(back.test->metrics, row.test->metrics);
    EXPECT_EQ(back.loading_share, row.loading_share);
    EXPECT_EQ(back.blocks, row.blocks);
  }
}

TEST(RunJson, ExperimentsAreReadBackComplete) {
  ExperimentResult result = sample_result();
  ExperimentResult back = from_json(json::parse(json_text(to_json(result), 1)));
  EXPECT_EQ(to_json(back), to_json(result));
  EXPECT_EQ(back.seed, 18446744073709551615u);
  EXPECT_EQ(back.machine, result.machine);
  EXPECT_EQ(back.rows[3].warnings, result.rows[3].warnings);
}

TEST(RunJson, MetricsKeepTheirOrderAndMayBeUndefined) {
  RunResult row = sample_result().rows[0];
  row.test->metrics = {
      {"mean_iou", 0.4}, {"pixel_accuracy", 0.8}, {"iou.0", 0.5}, {"iou.10", std::nan("")}, {"iou.2", 0.3}};
  row.final_metrics = {{"bleu", 5.5}};
  const json j = json::parse(json_text(row_to_json(row)));
  EXPECT_TRUE(j.at("test").at("metrics").at(3).at("value").is_null());
  const RunResult back = row_from_json(j);
  ASSERT_EQ(back.test->metrics.size(), 5u);
  EXPECT_EQ(back.test->metrics[4], row.test->metrics[4]);
  EXPECT_EQ(back.test->metrics[3].name, "iou.10");
  EXPECT_TRUE(std::isnan(back.test->metrics[3].value));
  EXPECT_EQ(back.final_metrics, row.final_metrics);
}

TEST(RunJson, ChangesOfPlan) {
  RunResult row = sample_result().rows[0];
  row.changes = {{213, "data 2", "single", "a step took 0.5 s", 0.25}, {300, "single", "tensor 2", "why not", 0.5}};
  const RunResult back = row_from_json(json::parse(json_text(row_to_json(row))));
  ASSERT_EQ(back.changes.size(), 2u);
  EXPECT_EQ(back.changes[0].step, 213);
  EXPECT_EQ(back.changes[0].from, "data 2");
  EXPECT_EQ(back.changes[1].to, "tensor 2");
  EXPECT_EQ(back.changes[1].reason, "why not");
  EXPECT_EQ(back.changes[0].seconds, 0.25);
  json old = row_to_json(row);
  old.erase("changes");
  EXPECT_TRUE(row_from_json(old).changes.empty());
}

TEST(RunJson, Checkpoints) {
  RunResult row = sample_result().rows[0];
  EXPECT_FALSE(row_from_json(row_to_json(row)).checkpoints);
  row.checkpoints = CheckpointReport{
      .written = 5, .failed = 1, .newest_step = 500, .bytes = 12345, .stall_seconds = 0.25, .write_seconds = 3.5};
  const auto back = row_from_json(json::parse(json_text(row_to_json(row)))).checkpoints;
  ASSERT_TRUE(back);
  EXPECT_EQ(
      std::tuple(back->written, back->failed, back->newest_step, back->bytes, back->stall_seconds, back->write_seconds),
      std::tuple(5, 1, 500, 12345, 0.25, 3.5));
}

/// Schema 1 had one metric, and a target with a name of its own.
TEST(RunJson, ReadsTheSchemaBefore) {
  json j = to_json(sample_result());
  j["schema"] = 1;
  const auto as_before = [](json& evaluation) {
    if (evaluation.is_null()) return;
    evaluation["accuracy"] = evaluation.at("metrics").at(0).at("value");
    evaluation.erase("metrics");
  };
  for (json& row : j["rows"]) {
    for (const char* key : {"test", "test_at_equal_samples", "test_at_equal_time"}) as_before(row.at(key));
    for (json& evaluation : row.at("evaluations")) as_before(evaluation);
    row["target_accuracy"] = row.at("target");
    for (const char* key : {"target", "final_metrics", "loading_share"}) row.erase(key);
  }
  const ExperimentResult back = from_json(j);
  EXPECT_EQ(back.rows[1].test->metrics, sample_result().rows[1].test->metrics);
  EXPECT_EQ(back.rows[1].evaluations[0].main()->value, sample_result().rows[1].evaluations[0].main()->value);
  EXPECT_EQ(back.rows[1].target, 0.98);
  EXPECT_FALSE(back.rows[1].loading_share);
  EXPECT_EQ(to_json(back).at("schema"), 2);
}

TEST(RunJson, SchedulesAreReadBackCompleteAndMayBeAbsent) {
  const ExperimentResult result = sample_result();
  json j = json::parse(json_text(to_json(result), 1));
  EXPECT_EQ(j.at("rows").at(2).at("schedule").at("rows").at(0).at("boxes").at(2).at("kind"), "backward");
  EXPECT_EQ(*from_json(j).rows[2].schedule, *result.rows[2].schedule);
  EXPECT_FALSE(from_json(j).rows[0].schedule);
  for (json& row : j["rows"]) row.erase("schedule");  // as in files of older versions
  for (const RunResult& row : from_json(j).rows) EXPECT_FALSE(row.schedule);
}

TEST(RunJson, RefusesSchedulesThatCannotBeDrawn) {
  const json whole = to_json(sample_result());
  const json::json_pointer drawing("/rows/2/schedule"), box("/rows/2/schedule/rows/1/boxes/3");
  const auto refused = [&](const json::json_pointer& at, json value) {
    json j = whole;
    j.at(at) = std::move(value);
    try {
      from_json(j, "other/run.json");
    } catch (const Error& e) {
      return std::string(e.what()).find("other/run.json") != std::string::npos;
    }
    return false;
  };
  EXPECT_FALSE(refused(box / "kind", "recompute")) << "what is right is read";
  EXPECT_TRUE(refused(box / "kind", "sideways"));
  EXPECT_TRUE(refused(box / "begin", "early"));
  EXPECT_TRUE(refused(box / "begin", -1));
  EXPECT_TRUE(refused(box / "end", 4)) << "before it begins";
  EXPECT_TRUE(refused(box / "stage", nullptr));
  EXPECT_TRUE(refused(box, json::object()));
  EXPECT_TRUE(refused(drawing / "makespan", nullptr));
  EXPECT_TRUE(refused(drawing / "shown_until", "all"));
  EXPECT_TRUE(refused(drawing / "bubble", "large"));
  EXPECT_TRUE(refused(drawing / "rows", 3));
  EXPECT_TRUE(refused(drawing / "rows", nullptr));
  EXPECT_TRUE(refused(drawing / "rows" / 0 / "label", 0));
  EXPECT_TRUE(refused(drawing / "rows" / 0 / "stages", "both"));
  EXPECT_TRUE(refused(drawing, "none"));
}

TEST(RunJson, LossesThatAreNotFiniteBecomeNullWithOneWarning) {
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    RunResult row = sample_result().rows[0];
    row.curve[6].loss = bad;
    row.curve[7].loss = bad;
    row.test->loss = bad;
    json j = json::parse(json_text(row_to_json(row)));
    EXPECT_TRUE(j.at("curve").at(6).at("loss").is_null());
    EXPECT_TRUE(j.at("test").at("loss").is_null());
    ASSERT_EQ(j.at("warnings").size(), 1u);
    EXPECT_NE(j.at("warnings").at(0).get<std::string>().find("step 7"), std::string::npos);
    RunResult back = row_from_json(j);
    EXPECT_TRUE(std::isnan(back.curve[6].loss));
    EXPECT_EQ(row_to_json(back).at("warnings").size(), 1u) << "not one more at each passing on";
  }
}

TEST(RunJson, SurvivesTextThatIsNotUtf8) {
  ExperimentResult result = sample_result();
  result.rows[4].reason = "cannot open \xff\xfe";
  EXPECT_NO_THROW(json::parse(json_text(to_json(result))));
}

TEST(RunJson, NamesTheSourceOfWhatItCannotRead) {
  json j = to_json(sample_result());
  j["schema"] = 99;
  try {
    from_json(j, "old/run.json");
    FAIL() << "read schema 99";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("old/run.json"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("99"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("schemas 1 to 2"), std::string::npos);
  }
  j["schema"] = 0;
  EXPECT_THROW(from_json(j), Error);
  j["schema"] = 2;
  j["rows"][0]["status"] = "splendid";
  EXPECT_THROW(from_json(j), Error);
  j["rows"][0]["status"] = "ok";
  j["rows"][0]["devices"] = "two";
  EXPECT_THROW(from_json(j), Error);
  EXPECT_THROW(from_json(json::array()), Error);
}

}  // namespace
}  // namespace trireme
