#include "report/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "sample.h"

namespace trireme {
namespace {

using nlohmann::json;

TEST(Trace, HoldsEachEventAtItsTime) {
  ExperimentResult result = test_support::sample_result();
  Timeline timeline{.step = 3, .workers = 2, .events = {}};
  timeline.events = {{0, EventKind::forward, "forward a", 1, 0.001, 0.003, 0},
                     {1, EventKind::send, "", -1, 0.0005, 0.002, 4096}};
  result.rows = {result.rows[1]};
  result.rows[0].timeline = timeline;
  json trace = json::parse(trace_json(result).dump());
  std::vector<json> events, names;
  for (const json& e : trace.at("traceEvents")) (e.at("ph") == "X" ? events : names).push_back(e);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("name"), "forward a");
  EXPECT_DOUBLE_EQ(events[0].at("ts"), 1000);
  EXPECT_DOUBLE_EQ(events[0].at("dur"), 2000);
  EXPECT_EQ(events[0].at("tid"), 0);
  EXPECT_EQ(events[0].at("args").at("micro_batch"), 1);
  EXPECT_EQ(events[1].at("name"), "send");
  EXPECT_EQ(events[1].at("tid"), 1);
  EXPECT_EQ(events[1].at("args").at("bytes"), 4096);
  EXPECT_FALSE(events[1].at("args").contains("micro_batch"));
  std::set<std::string> kinds;
  for (const json& name : names) kinds.insert(name.at("name").get<std::string>());
  EXPECT_TRUE(kinds.contains("process_name"));
  EXPECT_TRUE(kinds.contains("thread_name"));
}

TEST(Trace, PutsOverlappingEventsOnLanesOfTheirOwn) {
  Timeline timeline{.step = 1, .workers = 1, .events = {}};
  auto add = [&](double begin, double end) { timeline.events.push_back({0, EventKind::other, "", -1, begin, end, 0}); };
  add(0, 4);  // outer
  add(1, 2);  // inside the outer one
  add(3, 6);  // overlaps the outer one
  add(4, 5);  // follows the outer one
  EXPECT_EQ(event_lanes(timeline), (std::vector<int>{0, 0, 1, 0}));
}

TEST(Trace, GivesEveryRowAProcess) {
  json trace = trace_json(test_support::sample_result());
  std::set<int> pids;
  for (const json& e : trace.at("traceEvents")) pids.insert(e.at("pid").get<int>());
  EXPECT_EQ(pids, (std::set<int>{1, 2, 3, 4})) << "the fifth row has no timeline";
}

}  // namespace
}  // namespace trireme
