#include "report/page_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/counted.h"
#include "base/json_file.h"
#include "report/trace.h"

namespace trireme {
namespace {

using nlohmann::json;

/// Workers that share a lane. `events`: indices of those of the first worker.
struct SharedLane {
  std::vector<int> workers;
  std::vector<size_t> events;
};

double length_of(const Timeline& timeline) {
  double end = 0;
  for (const Event& event : timeline.events) end = std::max(end, event.end);
  return end;
}

/// Returns true if two workers do the same at the same time, within `tolerance` seconds.
bool are_alike(const std::vector<Event>& events, const std::vector<int>& lanes, const std::vector<size_t>& a,
               const std::vector<size_t>& b, double tolerance) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](size_t i, size_t j) {
    const Event &x = events[i], &y = events[j];
    return lanes[i] == lanes[j] && x.kind == y.kind && x.name == y.name && x.micro_batch == y.micro_batch &&
           std::abs(x.begin - y.begin) <= tolerance && std::abs(x.end - y.end) <= tolerance;
  });
}

std::vector<SharedLane> lanes_of(const Timeline& timeline, const std::vector<int>& places) {
  std::map<int, std::vector<size_t>> by_worker;
  for (size_t i = 0; i < timeline.events.size(); ++i) by_worker[timeline.events[i].rank].push_back(i);
  const bool shared = by_worker.size() > kFewWorkers;
  const double tolerance = kAlikeWithin * length_of(timeline);
  std::vector<SharedLane> lanes;
  for (auto& [worker, events] : by_worker) {
    const auto& own = events;
    const auto alike = std::find_if(lanes.begin(), lanes.end(), [&](const SharedLane& lane) {
      return shared && are_alike(timeline.events, places, lane.events, own, tolerance);
    });
    if (alike == lanes.end()) lanes.push_back({{worker}, std::move(events)});
    else alike->workers.push_back(worker);
  }
  return lanes;
}

/// "worker 3", "workers 0 to 31", "workers 0, 8, 16 and 5 more"
std::string workers_in_words(const std::vector<int>& workers) {
  constexpr size_t kNamed = 3;
  if (workers.size() == 1) return fmt::format("worker {}", workers.front());
  if (workers.back() - workers.front() + 1 == int(workers.size()))
    return fmt::format("workers {} to {}", workers.front(), workers.back());
  std::string text = "workers";
  for (size_t i = 0; i < std::min(kNamed, workers.size()); ++i) text += fmt::format("{} {}", i ? "," : "", workers[i]);
  return workers.size() > kNamed ? fmt::format("{} and {} more", text, workers.size() - kNamed) : text;
}

/// Keeps every k-th lane, so that lanes of all stages remain.
std::vector<SharedLane> thinned(std::vector<SharedLane> lanes) {
  if (lanes.size() <= kMostLanes) return lanes;
  std::vector<SharedLane> kept;
  for (size_t i = 0; i < kMostLanes; ++i) kept.push_back(std::move(lanes[i * lanes.size() / kMostLanes]));
  return kept;
}

}  // namespace

json page_timeline(const Timeline& exact) {
  // Times to a millionth of the step: shorter differences are no pixel at any zoom, and what overlaps by less needs no
  // lane of its own.
  const double length = length_of(exact);
  const double scale = length > 0 ? std::pow(10.0, 6 - std::floor(std::log10(length))) : 1;
  Timeline timeline = exact;
  for (Event& event : timeline.events)
    for (double* time : {&event.begin, &event.end}) *time = std::round(*time * scale) / scale;
  const std::vector<int> places = event_lanes(timeline);
  std::vector<SharedLane> all = lanes_of(timeline, places);
  const size_t count = all.size();
  const std::vector<SharedLane> lanes = thinned(std::move(all));
  json names = json::array(), events = json::array();
  for (size_t i = 0; i < lanes.size(); ++i) {
    names.push_back(workers_in_words(lanes[i].workers));
    for (const size_t k : lanes[i].events) {
      const Event& e = timeline.events[k];
      events.push_back(
          {i, places[k], name_of(e.kind), e.name, e.micro_batch, json_number(e.begin), json_number(e.end), e.bytes});
    }
  }
  std::string note;
  if (lanes.size() < count)
    note = fmt::format("{} of {} are shown; trace.json has all.", lanes.size(), counted(int64_t(count), "lane"));
  return {{"step", timeline.step}, {"lanes", std::move(names)}, {"note", note}, {"events", std::move(events)}};
}

}  // namespace trireme
