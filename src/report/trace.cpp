#include "report/trace.h"

#include "base/counted.h"
#include "report/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace trireme {
namespace {

using nlohmann::json;

constexpr double kMicro = 1e6;

json metadata(const char* name, int pid, int tid, json args) {
  return {{"ph", "M"}, {"name", name}, {"pid", pid}, {"tid", tid}, {"args", std::move(args)}};
}

void add_process(const RunResult& row, int pid, json& events) {
  const Timeline& timeline = *row.timeline;
  events.push_back(metadata(
      "process_name", pid, 0,
      {{"name", fmt::format("{}, {}, step {}", variant_name(row), counted(row.devices, "device"), timeline.step)}}));
  events.push_back(metadata("process_sort_index", pid, 0, {{"sort_index", pid}}));
  std::vector<int> lanes = event_lanes(timeline);
  std::set<std::pair<int, int>> threads;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const Event& e = timeline.events[i];
    int tid = e.rank + timeline.workers * lanes[i];
    if (threads.insert({e.rank, lanes[i]}).second) {
      std::string name =
          lanes[i] == 0 ? fmt::format("worker {}", e.rank) : fmt::format("worker {}, at the same time", e.rank);
      events.push_back(metadata("thread_name", pid, tid, {{"name", name}}));
      events.push_back(metadata("thread_sort_index", pid, tid, {{"sort_index", e.rank * 16 + lanes[i]}}));
    }
    json args = {{"bytes", e.bytes}};
    if (e.micro_batch >= 0) args["micro_batch"] = e.micro_batch;
    events.push_back({{"ph", "X"},
                      {"name", e.name.empty() ? name_of(e.kind) : e.name},
                      {"cat", name_of(e.kind)},
                      {"pid", pid},
                      {"tid", tid},
                      {"ts", e.begin * kMicro},
                      {"dur", std::max(0.0, e.end - e.begin) * kMicro},
                      {"args", std::move(args)}});
  }
}

}  // namespace

std::vector<int> event_lanes(const Timeline& timeline) {
  const std::vector<Event>& events = timeline.events;
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Outer events come before inner ones that begin at the same time.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(events[a].rank, events[a].begin, -events[a].end) <
           std::tuple(events[b].rank, events[b].begin, -events[b].end);
  });
  std::vector<int> lanes(events.size(), 0);
  // Per rank and lane: ends of the events that contain the current one.
  std::map<int, std::vector<std::vector<double>>> open;
  for (size_t i : order) {
    const Event& e = events[i];
    auto& stacks = open[e.rank];
    for (int lane = 0;; ++lane) {
      if (lane == static_cast<int>(stacks.size())) stacks.emplace_back();
      auto& ends = stacks[lane];
      while (!ends.empty() && ends.back() <= e.begin) ends.pop_back();
      if (!ends.empty() && ends.back() < e.end) continue;
      ends.push_back(e.end);
      lanes[i] = lane;
      break;
    }
  }
  return lanes;
}

json trace_json(const ExperimentResult& result) {
  json events = json::array();
  for (size_t i = 0; i < result.rows.size(); ++i)
    if (result.rows[i].timeline) add_process(result.rows[i], static_cast<int>(i) + 1, events);
  return {{"displayTimeUnit", "ms"},
          {"traceEvents", std::move(events)},
          {"otherData", {{"experiment", result.experiment}, {"machine", result.machine}}}};
}

}  // namespace trireme
