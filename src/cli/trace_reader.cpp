#include "cli/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kMicro = 1e-6;
EventKind kind_of(const std::string& name) {
  for (EventKind kind : all_event_kinds())
    if (name == name_of(kind)) return kind;
  return EventKind::other;
}

Event read_event(const nlohmann::json& j, int workers) {
  Event e;
  e.rank = j.at("tid").get<int>() % workers;  // tids of a worker's lanes differ by `workers`
  e.kind = kind_of(j.at("cat").get<std::string>());
  e.name = j.at("name").get<std::string>();
  e.begin = j.at("ts").get<double>() * kMicro;
  e.end = e.begin + j.at("dur").get<double>() * kMicro;
  e.bytes = j.at("args").value("bytes", int64_t{0});
  e.micro_batch = j.at("args").value("micro_batch", -1);
  return e;
}

/// Returns the step at the end of the process's name: "data, 2 devices, step 11".
int64_t step_in(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  return std::atoll(name.c_str() + digits);
}

}  // namespace

void read_timelines(const nlohmann::json& trace, ExperimentResult& result, const std::string& where) {
  try {
    for (const nlohmann::json& j : trace.at("traceEvents")) {
      const auto pid = j.at("pid").get<size_t>();  // the row's index, from 1
      if (pid < 1 || pid > result.rows.size())
        throw std::invalid_argument(fmt::format("process {} of {} rows", pid, result.rows.size()));
      RunResult& row = result.rows[pid - 1];
      if (!row.timeline) row.timeline = Timeline{.step = 0, .workers = std::max(1, row.devices), .events = {}};
      const auto phase = j.at("ph").get<std::string>();
      if (phase == "X") row.timeline->events.push_back(read_event(j, row.timeline->workers));
      if (phase == "M" && j.at("name") == "process_name") row.timeline->step = step_in(j.at("args").at("name"));
    }
  } catch (const std::exception& error) {
    fail_user(
        {where, "not a trace of this run", first_line(error), "remove it: the report then comes without timelines"});
  }
  for (RunResult& row : result.rows)
    if (row.timeline)
      std::stable_sort(row.timeline->events.begin(), row.timeline->events.end(), [](const Event& a, const Event& b) {
        return std::tuple(a.rank, a.begin) < std::tuple(b.rank, b.begin);
      });
}

}  // namespace trireme
