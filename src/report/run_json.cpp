#include "report/run_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "report/columns.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr RunStatus kStatuses[] = {RunStatus::ok,           RunStatus::failed,  RunStatus::timed_out,
                                   RunStatus::does_not_fit, RunStatus::skipped, RunStatus::interrupted};
template <typename Values>
auto enum_of(const Values& values, const std::string& name, const char* what) {
  for (auto value : values)
    if (name == name_of(value)) return value;
  throw std::invalid_argument(fmt::format("\"{}\" is no {}", name, what));
}

double number(const json& j, const char* key) { return number_from(j.at(key)); }

json optional_number(const std::optional<double>& value) { return value ? json_number(*value) : json(nullptr); }

/// Null or absent: not measured.
bool has(const json& j, const char* key) { return j.contains(key) && !j.at(key).is_null(); }

std::optional<double> optional_number(const json& j, const char* key) {
  return has(j, key) ? std::optional(j.at(key).get<double>()) : std::nullopt;
}

json metrics_json(const std::vector<Metric>& metrics) {
  json list = json::array();
  for (const Metric& metric : metrics) list.push_back({{"name", metric.name}, {"value", json_number(metric.value)}});
  return list;
}

std::vector<Metric> read_metrics(const json& list) {
  std::vector<Metric> metrics;
  for (const json& metric : list) metrics.push_back({metric.at("name").get<std::string>(), number(metric, "value")});
  return metrics;
}

json evaluation_json(const EvaluationPoint& e) {
  return {{"step", e.step},
          {"samples", e.samples},
          {"epoch", json_number(e.epoch)},
          {"seconds", json_number(e.seconds)},
          {"loss", json_number(e.loss)},
          {"metrics", metrics_json(e.metrics)}};
}

json optional_evaluation(const std::optional<EvaluationPoint>& e) { return e ? evaluation_json(*e) : json(nullptr); }

/// Schema 1 knew one metric, the accuracy, and had it beside the loss.
std::vector<Metric> read_evaluation_metrics(const json& j) {
  return j.contains("metrics") ? read_metrics(j.at("metrics")) : std::vector<Metric>{{"accuracy", number(j, "accuracy")}};
}

EvaluationPoint read_evaluation(const json& j) {
  return {.step = j.at("step").get<int64_t>(),
          .samples = j.at("samples").get<int64_t>(),
          .epoch = number(j, "epoch"),
          .seconds = number(j, "seconds"),
          .loss = number(j, "loss"),
          .metrics = read_evaluation_metrics(j)};
}

std::optional<EvaluationPoint> read_optional_evaluation(const json& j, const char* key) {
  return has(j, key) ? std::optional(read_evaluation(j.at(key))) : std::nullopt;
}

json categories_json(const std::array<int64_t, kMemoryCategories>& bytes) {
  json j = json::object();
  for (int c = 0; c < kMemoryCategories; ++c) j[name_of(static_cast<MemoryCategory>(c))] = bytes[c];
  return j;
}

std::array<int64_t, kMemoryCategories> read_categories(const json& j) {
  std::array<int64_t, kMemoryCategories> bytes{};
  for (int c = 0; c < kMemoryCategories; ++c) bytes[c] = j.at(name_of(static_cast<MemoryCategory>(c))).get<int64_t>();
  return bytes;
}

json memory_json(const std::vector<MemoryUse>& memory) {
  json list = json::array();
  for (const MemoryUse& use : memory) {
    json device = categories_json(use.at_peak);
    device["peak"] = use.peak;
    device["at_end"] = categories_json(use.current);
    list.push_back(std::move(device));
  }
  return list;
}

std::vector<MemoryUse> read_memory(const json& list) {
  std::vector<MemoryUse> memory;
  for (const json& device : list) {
    MemoryUse use;
    use.at_peak = read_categories(device);
    use.peak = device.at("peak").get<int64_t>();
    if (has(device, "at_end")) use.current = read_categories(device.at("at_end"));
    memory.push_back(use);
  }
  return memory;
}

json timeline_json(const Timeline& timeline) {
  json events = json::array();
  for (const Event& e : timeline.events)
    events.push_back({{"rank", e.rank},
                      {"kind", name_of(e.kind)},
                      {"name", e.name},
                      {"micro_batch", e.micro_batch},
                      {"begin", json_number(e.begin)},
                      {"end", json_number(e.end)},
                      {"bytes", e.bytes}});
  return {{"step", timeline.step}, {"workers", timeline.workers}, {"events", std::move(events)}};
}

Timeline read_timeline(const json& j) {
  Timeline timeline{.step = j.at("step").get<int64_t>(), .workers = j.at("workers").get<int>(), .events = {}};
  for (const json& e : j.at("events"))
    timeline.events.push_back({.rank = e.at("rank").get<int>(),
                               .kind = enum_of(all_event_kinds(), e.at("kind").get<std::string>(), "kind of event"),
                               .name = e.at("name").get<std::string>(),
                               .micro_batch = e.at("micro_batch").get<int>(),
                               .begin = number(e, "begin"),
                               .end = number(e, "end"),
                               .bytes = e.at("bytes").get<int64_t>()});
  return timeline;
}

constexpr const char* kBoxKinds[] = {"forward", "backward", "backward_input", "backward_weight", "recompute"};

/// A number that a picture can be drawn with.
double time_of(const json& j, const char* key) {
  const double time = j.at(key).get<double>();
  if (!(time >= 0)) throw std::invalid_argument(fmt::format("\"{}\": {} is no time of a schedule", key, time));
  return time;
}

const json::array_t& array_of(const json& j, const char* key) { return j.at(key).get_ref<const json::array_t&>(); }

void check_box(const json& box) {
  const double begin = time_of(box, "begin"), end = time_of(box, "end");
  if (end < begin) throw std::invalid_argument(fmt::format("a box of a schedule ends at {}, before it begins at {}", end, begin));
  const auto kind = box.at("kind").get<std::string>();
  if (std::find(std::begin(kBoxKinds), std::end(kBoxKinds), kind) == std::end(kBoxKinds))
    throw std::invalid_argument(fmt::format("\"{}\" is no kind of a schedule's box", kind));
  for (const char* key : {"stage", "micro_batch", "batch"}) box.at(key).get<int>();
}

/// The picture as it stands, once every field that is drawn has been looked at.
json read_schedule(const json& j) {
  for (const char* key : {"makespan", "shown_until"}) time_of(j, key);
  for (const char* key : {"batches", "micro_batches"}) j.at(key).get<int>();
  j.at("flushes").get<bool>();
  optional_number(j, "bubble");
  for (const json& row : array_of(j, "rows")) {
    row.at("label").get<std::string>();
    row.at("workers").get<std::vector<int>>();
    row.at("stages").get<std::vector<int>>();
    optional_number(row, "bubble");
    for (const json& box : array_of(row, "boxes")) check_box(box);
  }
  return j;
}

/// The row's warnings, with one more where losses cannot be written.
std::vector<std::string> warnings_of(const RunResult& row) {
  std::vector<std::string> warnings = row.warnings;
  auto first = std::find_if(row.curve.begin(), row.curve.end(), [](const CurvePoint& p) { return !std::isfinite(p.loss); });
  std::string warning;
  if (first != row.curve.end()) {
    warning = fmt::format("the training loss is not finite at step {}: the run diverged", first->step);
  } else {
    auto test = std::find_if(row.evaluations.begin(), row.evaluations.end(),
                             [](const EvaluationPoint& e) { return !std::isfinite(e.loss); });
    if (test != row.evaluations.end())
      warning = fmt::format("the test loss is not finite at step {}: the run diverged", test->step);
    else if (row.test && !std::isfinite(row.test->loss))
      warning = "the test loss is not finite: the run diverged";
  }
  if (!warning.empty() && std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
    warnings.push_back(std::move(warning));
  return warnings;
}

json rounds_json(const std::vector<RoundRecord>& rounds) {
  json list = json::array();
  for (const RoundRecord& r : rounds)
    list.push_back({{"round", r.round}, {"seconds", json_number(r.seconds)}, {"selected", r.selected}, {"answered", r.answered}, {"refused", r.refused},
                    {"refused_clients", r.refused_clients}, {"clipped", r.clipped}, {"late", r.late}, {"samples", json_number(r.samples)}});
  return list;
}

std::vector<RoundRecord> read_rounds(const json& list) {
  std::vector<RoundRecord> rounds;
  for (const json& r : list)
    rounds.push_back({.round = r.at("round").get<int64_t>(), .selected = r.at("selected").get<int>(), .answered = r.at("answered").get<int>(),
                      .refused = r.at("refused").get<int>(), .refused_clients = r.at("refused_clients").get<std::vector<int>>(),
                      .clipped = r.at("clipped").get<int>(), .late = r.at("late").get<int>(), .samples = number(r, "samples"),
                      .seconds = number(r, "seconds")});
  return rounds;
}

json measured_json(const RunResult& row) {
  json j;
  j["step_seconds"] = nullptr;
  if (row.step_seconds)
    j["step_seconds"] = {{"median", json_number(row.step_seconds->median)},
                         {"p10", json_number(row.step_seconds->p10)},
                         {"p90", json_number(row.step_seconds->p90)}};
  j["epoch_seconds"] = optional_number(row.epoch_seconds);
  j["samples_per_second"] = optional_number(row.samples_per_second);
  j["scaling_efficiency"] = optional_number(row.scaling_efficiency);
  j["busy_share"] = json::array();
  for (double share : row.busy_share) j["busy_share"].push_back(json_number(share));
  j["loading_share"] = optional_number(row.loading_share);
  j["communication"] = {{"exposed_share", optional_number(row.exposed_communication)},
                        {"hidden_share", optional_number(row.hidden_communication)},
                        {"bytes_per_step", row.bytes_per_step ? json(*row.bytes_per_step) : json(nullptr)}};
  j["memory_bytes"] = memory_json(row.memory);
  j["predicted"] = nullptr;
  if (row.predicted)
    j["predicted"] = {{"step_seconds", json_number(row.predicted->step_seconds)},
                      {"peak_memory_bytes", row.predicted->peak_memory ? json(*row.predicted->peak_memory) : json(nullptr)},
                      {"basis", row.predicted->basis}};
  j["price_per_epoch"] = optional_number(row.price_per_epoch);
  j["price_to_target"] = optional_number(row.price_to_target);
  j["test"] = optional_evaluation(row.test);
  j["test_at_equal_samples"] = optional_evaluation(row.test_at_equal_samples);
  j["test_at_equal_time"] = optional_evaluation(row.test_at_equal_time);
  j["final_metrics"] = metrics_json(row.final_metrics);
  j["target"] = optional_number(row.target);
  j["to_target"] = nullptr;
  if (row.to_target)
    j["to_target"] = {{"steps", row.to_target->steps},
                      {"epochs", json_number(row.to_target->epochs)},
                      {"seconds", json_number(row.to_target->seconds)}};
  j["noise_scale"] = optional_number(row.noise_scale);
  j["replicas"] = nullptr;
  if (row.replicas)
    j["replicas"] = {{"count", row.replicas->replicas}, {"clock", row.replicas->clock}, {"idle_share", json_number(row.replicas->idle_share)},
                     {"bytes_sent", row.replicas->bytes}, {"staleness", row.replicas->staleness}, {"rounds", rounds_json(row.replicas->rounds)}};
  j["checkpoints"] = nullptr;
  if (row.checkpoints)
    j["checkpoints"] = {{"written", row.checkpoints->written}, {"failed", row.checkpoints->failed},
                        {"newest_step", row.checkpoints->newest_step}, {"bytes", row.checkpoints->bytes},
                        {"stall_seconds", json_number(row.checkpoints->stall_seconds)},
                        {"write_seconds", json_number(row.checkpoints->write_seconds)}};
  return j;
}

json row_json(const RunResult& row) {
  json j = measured_json(row);
  j["strategy"] = row.strategy;
  j["name"] = row.name;
  j["plan"] = row.plan;
  j["blocks"] = json::array();
  for (const BlockStrategy& b : row.blocks)
    j["blocks"].push_back({{"block", b.block}, {"layers", b.layers}, {"stage", b.stage}, {"strategy", b.strategy}});
  j["status"] = name_of(row.status);
  j["reason"] = row.reason.empty() ? json(nullptr) : json(row.reason);
  j["warnings"] = warnings_of(row);
  j["devices"] = row.devices;
  j["backend"] = row.backend;
  j["oversubscribed"] = row.oversubscribed;
  j["schedule"] = row.schedule ? *row.schedule : json(nullptr);
  j["changes"] = json::array();
  for (const PlanChange& c : row.changes)
    j["changes"].push_back({{"step", c.step}, {"from", c.from}, {"to", c.to}, {"reason", c.reason}, {"seconds", json_number(c.seconds)}});
  j["curve"] = json::array();
  for (const CurvePoint& p : row.curve)
    j["curve"].push_back({{"step", p.step},
                          {"samples", p.samples},
                          {"seconds", json_number(p.seconds)},
                          {"loss", json_number(p.loss)}});
  j["evaluations"] = json::array();
  for (const EvaluationPoint& e : row.evaluations) j["evaluations"].push_back(evaluation_json(e));
  return j;
}

void read_measured(const json& j, RunResult& row) {
  if (has(j, "step_seconds")) {
    const json& s = j.at("step_seconds");
    row.step_seconds = StepSeconds{.median = number(s, "median"), .p10 = number(s, "p10"), .p90 = number(s, "p90")};
  }
  row.epoch_seconds = optional_number(j, "epoch_seconds");
  row.samples_per_second = optional_number(j, "samples_per_second");
  row.scaling_efficiency = optional_number(j, "scaling_efficiency");
  for (const json& share : j.at("busy_share")) row.busy_share.push_back(number_from(share));
  row.loading_share = optional_number(j, "loading_share");
  const json& communication = j.at("communication");
  row.exposed_communication = optional_number(communication, "exposed_share");
  row.hidden_communication = optional_number(communication, "hidden_share");
  if (has(communication, "bytes_per_step")) row.bytes_per_step = communication.at("bytes_per_step").get<int64_t>();
  row.memory = read_memory(j.at("memory_bytes"));
  if (has(j, "predicted")) {
    const json& p = j.at("predicted");
    row.predicted = SimulatedStep{.step_seconds = number(p, "step_seconds"), .peak_memory = {}, .basis = p.value("basis", "")};
    if (has(p, "peak_memory_bytes")) row.predicted->peak_memory = p.at("peak_memory_bytes").get<int64_t>();
  }
  row.price_per_epoch = optional_number(j, "price_per_epoch");
  row.price_to_target = optional_number(j, "price_to_target");
  row.test = read_optional_evaluation(j, "test");
  row.test_at_equal_samples = read_optional_evaluation(j, "test_at_equal_samples");
  row.test_at_equal_time = read_optional_evaluation(j, "test_at_equal_time");
  if (has(j, "final_metrics")) row.final_metrics = read_metrics(j.at("final_metrics"));
  row.target = optional_number(j, j.contains("target_accuracy") ? "target_accuracy" : "target");  // as schema 1 called it
  if (has(j, "to_target")) {
    const json& t = j.at("to_target");
    row.to_target = ToTarget{.steps = t.at("steps").get<int64_t>(), .epochs = number(t, "epochs"), .seconds = number(t, "seconds")};
  }
  row.noise_scale = optional_number(j, "noise_scale");
  if (has(j, "replicas")) {
    const json& r = j.at("replicas");
    row.replicas = ReplicaReport{.replicas = r.at("count").get<int>(), .clock = r.at("clock").get<std::string>(), .idle_share = number(r, "idle_share"),
                                 .bytes = r.at("bytes_sent").get<int64_t>(), .staleness = r.at("staleness").get<std::vector<int64_t>>(),
                                 .rounds = read_rounds(r.value("rounds", json::array()))};
  }
  if (has(j, "checkpoints")) {
    const json& c = j.at("checkpoints");
    row.checkpoints = CheckpointReport{.written = c.at("written").get<int64_t>(), .failed = c.at("failed").get<int64_t>(),
                                       .newest_step = c.at("newest_step").get<int64_t>(), .bytes = c.at("bytes").get<int64_t>(),
                                       .stall_seconds = number(c, "stall_seconds"), .write_seconds = number(c, "write_seconds")};
  }
}

RunResult read_row(const json& j) {
  RunResult row;
  row.strategy = j.at("strategy").get<std::string>();
  row.plan = j.value("plan", "");
  if (has(j, "blocks"))
    for (const json& b : j.at("blocks"))
      row.blocks.push_back({b.at("block").get<std::string>(), b.at("layers").get<int>(), b.at("stage").get<int>(), b.at("strategy").get<std::string>()});
  row.status = enum_of(kStatuses, j.at("status").get<std::string>(), "status of a run");
  if (has(j, "reason")) row.reason = j.at("reason").get<std::string>();
  row.warnings = j.value("warnings", std::vector<std::string>{});
  row.name = j.value("name", "");
  row.oversubscribed = j.value("oversubscribed", false);
  row.devices = j.at("devices").get<int>();
  row.backend = j.value("backend", row.backend);
  read_measured(j, row);
  for (const json& p : j.at("curve"))
    row.curve.push_back({.step = p.at("step").get<int64_t>(),
                         .samples = p.at("samples").get<int64_t>(),
                         .seconds = number(p, "seconds"),
                         .loss = number(p, "loss")});
  if (has(j, "evaluations"))
    for (const json& e : j.at("evaluations")) row.evaluations.push_back(read_evaluation(e));
  if (has(j, "changes"))
    for (const json& c : j.at("changes"))
      row.changes.push_back({.step = c.at("step").get<int64_t>(),
                             .from = c.at("from").get<std::string>(),
                             .to = c.at("to").get<std::string>(),
                             .reason = c.at("reason").get<std::string>(),
                             .seconds = number(c, "seconds")});
  if (has(j, "schedule")) row.schedule = std::make_shared<const json>(read_schedule(j.at("schedule")));
  if (has(j, "timeline")) row.timeline = read_timeline(j.at("timeline"));
  return row;
}

/// Runs `read`, turning what nlohmann's accessors and enum_of throw into one line.
template <typename Read>
auto reading(const std::string& where, Read read) {
  try {
    return read();
  } catch (const json::exception& e) {
    fail_user({where, "does not hold a result of Trireme", first_line(e), "see docs/run-folder.md for the fields"});
  } catch (const std::invalid_argument& e) {
    fail_user({where, e.what(), "the file is damaged or from another version", "see docs/run-folder.md for the values"});
  }
}

}  // namespace

std::string json_text(const json& j, int indent) { return j.dump(indent, ' ', false, json::error_handler_t::replace); }

json to_json(const ExperimentResult& result) {
  bool interrupted = false;
  json rows = json::array();
  for (const RunResult& row : result.rows) {
    interrupted |= row.status == RunStatus::interrupted;
    rows.push_back(row_json(row));
  }
  return {{"schema", kRunSchema},
          {"status", interrupted ? "interrupted" : "finished"},
          {"experiment", result.experiment},
          {"model", result.model},
          {"data_source", result.data_source},
          {"generated_data", result.generated_data},
          {"precision", result.precision},
          {"batch", result.batch},
          {"seed", result.seed},
          {"machine", result.machine},
          {"started", result.started},
          {"initial_values", result.initial_values},
          {"simulated", result.simulated},
          {"price_per_hour", optional_number(result.price_per_hour)},
          {"currency", result.currency},
          {"prices", result.prices},
          {"notes", strategy_notes(result)},
          {"rows", std::move(rows)}};
}

ExperimentResult from_json(const json& j, const std::string& where) {
  return reading(where, [&] {
    int schema = j.at("schema").get<int>();
    if (schema < kOldestRunSchema || schema > kRunSchema)
      fail_user({where, fmt::format("schema = {}", schema), fmt::format("this Trireme reads schemas {} to {}", kOldestRunSchema, kRunSchema),
                 "read it with the version that wrote it"});
    ExperimentResult result;
    result.experiment = j.at("experiment").get<std::string>();
    result.model = j.value("model", "");
    result.data_source = j.value("data_source", "");
    result.generated_data = j.value("generated_data", false);
    result.precision = j.value("precision", "");
    result.batch = j.value("batch", int64_t{0});
    result.seed = j.value("seed", uint64_t{0});
    result.machine = j.value("machine", "");
    result.started = j.value("started", "");
    result.initial_values = j.value("initial_values", std::vector<std::string>{});
    result.simulated = j.value("simulated", "");
    result.price_per_hour = optional_number(j, "price_per_hour");
    result.currency = j.value("currency", "");
    result.prices = j.value("prices", "");
    for (const json& row : j.at("rows")) result.rows.push_back(read_row(row));
    return result;
  });
}

json row_to_json(const RunResult& row) {
  json j = row_json(row);
  j["timeline"] = row.timeline ? timeline_json(*row.timeline) : json(nullptr);
  return j;
}

RunResult row_from_json(const json& j, const std::string& where) {
  return reading(where, [&] { return read_row(j); });
}

}  // namespace trireme
