#include "report/run_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>

#include "base/json_file.h"
#include "base/text.h"
#include "report/columns.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr RunStatus kStatuses[] = {RunStatus::ok,           RunStatus::failed,  RunStatus::timed_out,
                                   RunStatus::does_not_fit, RunStatus::skipped, RunStatus::interrupted};
template <typename Values>
auto enum_of(const Values& values, const std::string& name, const char* what) {
  for (auto value : values)
    if (name == name_of(value)) return value;
  throw std::invalid_argument(fmt::format("\"{}\" is not a {}", name, what));
}

/// True if the value was measured: present and not null.
bool has(const json& j, const char* key) { return j.contains(key) && !j.at(key).is_null(); }

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

template <class T, class Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;

// The fields of each struct after their keys, for Writer and Reader. `fields.maybe`: fields that older files lack.

void each_field(auto& fields, Is<Metric> auto& m) { fields("name", m.name, "value", m.value); }

void each_field(auto& fields, Is<OwnEvaluation> auto& o) {
  fields("replica", o.replica, "loss", o.loss, "metrics", o.metrics);
}

void each_field(auto& fields, Is<EvaluationPoint> auto& e) {
  fields("step", e.step, "samples", e.samples, "epoch", e.epoch, "seconds", e.seconds, "loss", e.loss);
  fields.maybe("metrics", e.metrics);
}

void each_field(auto& fields, Is<Event> auto& e) {
  fields("rank", e.rank, "kind", e.kind, "name", e.name, "micro_batch", e.micro_batch, "begin", e.begin, "end", e.end,
         "bytes", e.bytes);
}

void each_field(auto& fields, Is<Timeline> auto& t) {
  fields("step", t.step, "workers", t.workers, "events", t.events);
}

void each_field(auto& fields, Is<RoundRecord> auto& r) {
  fields("round", r.round, "seconds", r.seconds, "selected", r.selected, "answered", r.answered, "refused", r.refused,
         "refused_clients", r.refused_clients, "clipped", r.clipped, "late", r.late, "samples", r.samples);
}

void each_field(auto& fields, Is<PrivacySpent> auto& p) { fields("epsilon", p.epsilon, "delta", p.delta); }

void each_field(auto& fields, Is<StepSeconds> auto& s) {
  fields("median", s.median, "p10", s.p10, "p90", s.p90, "mean", s.mean);
}

void each_field(auto& fields, Is<RepeatReport> auto& r) {
  fields("step_seconds", r.step_seconds, "epoch_seconds", r.epoch_seconds);
}

void each_field(auto& fields, Is<MemoryRange> auto& m) {
  fields("low_bytes", m.low, "expected_bytes", m.expected, "high_bytes", m.high);
}

void each_field(auto& fields, Is<SimulatedStep> auto& s) {
  fields("step_seconds", s.step_seconds, "peak_memory_bytes", s.peak_memory, "device_memory", s.device_memory);
  fields("core_seconds", s.core_seconds, "memory_speed", s.memory_speed);
  fields.maybe("basis", s.basis);
}

void each_field(auto& fields, Is<ToTarget> auto& t) {
  fields("steps", t.steps, "epochs", t.epochs, "seconds", t.seconds);
}

void each_field(auto& fields, Is<ReplicaReport> auto& r) {
  fields("count", r.replicas, "clock", r.clock, "idle_share", r.idle_share, "bytes_sent", r.bytes, "staleness",
         r.staleness);
  fields.maybe("rounds", r.rounds, "own", r.own);
  fields("privacy", r.privacy);
}

void each_field(auto& fields, Is<CheckpointReport> auto& c) {
  fields("written", c.written, "failed", c.failed, "newest_step", c.newest_step, "bytes", c.bytes, "stall_seconds",
         c.stall_seconds, "write_seconds", c.write_seconds);
}

void each_field(auto& fields, Is<BlockStrategy> auto& b) {
  fields("block", b.block, "layers", b.layers, "stage", b.stage, "strategy", b.strategy);
}

void each_field(auto& fields, Is<PlanChange> auto& c) {
  fields("step", c.step, "from", c.from, "to", c.to, "reason", c.reason, "seconds", c.seconds);
}

void each_field(auto& fields, Is<CurvePoint> auto& p) {
  fields("step", p.step, "samples", p.samples, "seconds", p.seconds, "loss", p.loss);
  fields.maybe("learning_rate", p.learning_rate);
  fields("gradient_norm", p.gradient_norm);
}

/// All fields except `reason`, `warnings`, `schedule`, the timeline and the measured steps.
void each_field(auto& fields, Is<RunResult> auto& row) {
  fields("strategy", row.strategy);
  fields.maybe("name", row.name, "plan", row.plan, "blocks", row.blocks);
  fields("status", row.status, "devices", row.devices, "batch", row.batch);
  fields.maybe("ended_early", row.ended_early, "group_devices", row.group_devices, "backend", row.backend,
               "oversubscribed", row.oversubscribed);
  fields("step_seconds", row.step_seconds, "epoch_seconds", row.epoch_seconds, "samples_per_second",
         row.samples_per_second, "scaling_efficiency", row.scaling_efficiency, "busy_share", row.busy_share,
         "loading_share", row.loading_share);
  fields.within("communication", [&](auto& inner) {
    inner("exposed_share", row.exposed_communication, "hidden_share", row.hidden_communication, "bytes_per_step",
          row.bytes_per_step);
  });
  fields("memory_bytes", row.memory, "predicted", row.predicted, "price_per_epoch", row.price_per_epoch,
         "price_to_target", row.price_to_target, "test", row.test, "test_at_equal_samples", row.test_at_equal_samples,
         "test_at_equal_time", row.test_at_equal_time);
  fields("weights_of_step", row.weights_of_step);
  fields.maybe("final_metrics", row.final_metrics);
  fields("target", row.target, "to_target", row.to_target, "noise_scale", row.noise_scale, "replicas", row.replicas,
         "checkpoints", row.checkpoints);
  fields.maybe("changes", row.changes, "repeats", row.repeats);
  fields("core_seconds", row.core_seconds, "memory_speed", row.memory_speed);
  fields("curve", row.curve);
  fields.maybe("evaluations", row.evaluations);
}

/// All fields except the rows.
void each_field(auto& fields, Is<ExperimentResult> auto& result) {
  fields("experiment", result.experiment);
  fields.maybe("model", result.model, "data_source", result.data_source, "generated_data", result.generated_data,
               "precision", result.precision, "batch", result.batch, "seed", result.seed, "machine", result.machine,
               "started", result.started, "initial_values", result.initial_values, "simulated", result.simulated);
  fields("batch_per_device", result.batch_per_device, "price_per_hour", result.price_per_hour);
  fields.maybe("currency", result.currency, "prices", result.prices);
}

/// Creates the JSON object of a struct's fields. Null represents a missing value or a number that is not finite.
class Writer {
 public:
  template <class T>
  static json object(const T& value) {
    Writer writer;
    each_field(writer, value);
    return std::move(writer.json_);
  }

  void operator()(const char* key, const auto& value, const auto&... more) {
    json_[key] = written(value);
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }
  void maybe(const auto&... fields) { (*this)(fields...); }
  void within(const char* key, const auto& inner) {
    Writer writer;
    inner(writer);
    json_[key] = std::move(writer.json_);
  }

 private:
  template <class T>
  static json written(const T& value) {
    if constexpr (std::is_enum_v<T>) return name_of(value);
    else if constexpr (std::is_class_v<T> && requires(Writer w) { each_field(w, value); }) return object(value);
    else return value;
  }
  static json written(double value) { return json_number(value); }
  static json written(const MemoryUse& use) {
    json j = categories_json(use.at_peak);
    j["peak"] = use.peak;
    j["at_end"] = categories_json(use.current);
    return j;
  }
  template <class T>
  static json written(const std::optional<T>& value) {
    return value ? written(*value) : json(nullptr);
  }
  template <class T>
  static json written(const std::vector<T>& values) {
    json list = json::array();
    for (const T& value : values) list.push_back(written(value));
    return list;
  }

  json json_ = json::object();
};

/// Reads JSON that Writer has written.
class Reader {
 public:
  explicit Reader(const json& j) : json_(j) {}

  template <class T>
  void operator()(const char* key, T& value, auto&&... more) {
    read(json_.at(key), value);
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value, auto&&... more) {
    if (has(json_, key)) read(json_.at(key), value.emplace());
    if constexpr (sizeof...(more) > 0) (*this)(more...);
  }
  template <class T>
  void maybe(const char* key, T& value, auto&&... more) {
    if (has(json_, key)) read(json_.at(key), value);
    if constexpr (sizeof...(more) > 0) maybe(more...);
  }
  void within(const char* key, const auto& inner) {
    Reader reader(json_.at(key));
    inner(reader);
  }

  template <class T>
  static void read(const json& j, T& value) {
    if constexpr (std::is_class_v<T> && requires(Reader r) { each_field(r, value); }) {
      Reader reader(j);
      each_field(reader, value);
    } else {
      j.get_to(value);
    }
  }
  static void read(const json& j, double& value) { value = number_from(j); }
  static void read(const json& j, RunStatus& value) {
    value = enum_of(kStatuses, j.get<std::string>(), "status of a run");
  }
  static void read(const json& j, EventKind& value) {
    value = enum_of(all_event_kinds(), j.get<std::string>(), "kind of event");
  }
  static void read(const json& j, EvaluationPoint& value) {
    Reader reader(j);
    each_field(reader, value);
    // Schema 1 had one metric, the accuracy, next to the loss.
    if (!j.contains("metrics")) value.metrics = {{"accuracy", number_from(j.at("accuracy"))}};
  }
  static void read(const json& j, MemoryUse& use) {
    use.at_peak = read_categories(j);
    use.peak = j.at("peak").get<int64_t>();
    if (has(j, "at_end")) use.current = read_categories(j.at("at_end"));
  }
  template <class T>
  static void read(const json& list, std::vector<T>& values) {
    for (const json& j : list) read(j, values.emplace_back());
  }

 private:
  const json& json_;
};

constexpr const char* kBoxKinds[] = {"forward", "backward", "backward_input", "backward_weight", "recompute"};

/// Returns a valid time of a schedule drawing.
double time_of(const json& j, const char* key) {
  const double time = j.at(key).get<double>();
  if (!(time >= 0)) throw std::invalid_argument(fmt::format("\"{}\": {} is not a time of a schedule", key, time));
  return time;
}

const json::array_t& array_of(const json& j, const char* key) { return j.at(key).get_ref<const json::array_t&>(); }

void check_box(const json& box) {
  const double begin = time_of(box, "begin"), end = time_of(box, "end");
  if (end < begin)
    throw std::invalid_argument(fmt::format("a box of a schedule ends at {}, before it begins at {}", end, begin));
  const auto kind = box.at("kind").get<std::string>();
  if (std::find(std::begin(kBoxKinds), std::end(kBoxKinds), kind) == std::end(kBoxKinds))
    throw std::invalid_argument(fmt::format("\"{}\" is not a kind of schedule box", kind));
  for (const char* key : {"stage", "micro_batch", "batch"}) box.at(key).get<int>();
}

/// Returns the drawing unchanged after checking every field that is drawn.
json read_schedule(const json& j) {
  for (const char* key : {"makespan", "shown_until"}) time_of(j, key);
  for (const char* key : {"batches", "micro_batches"}) j.at(key).get<int>();
  j.at("flushes").get<bool>();
  if (has(j, "bubble")) j.at("bubble").get<double>();
  for (const json& row : array_of(j, "rows")) {
    row.at("label").get<std::string>();
    row.at("workers").get<std::vector<int>>();
    row.at("stages").get<std::vector<int>>();
    if (has(row, "bubble")) row.at("bubble").get<double>();
    for (const json& box : array_of(row, "boxes")) check_box(box);
  }
  return j;
}

/// Returns the row's warnings, and one more if a loss is not finite.
std::vector<std::string> warnings_of(const RunResult& row) {
  std::vector<std::string> warnings = row.warnings;
  auto first =
      std::find_if(row.curve.begin(), row.curve.end(), [](const CurvePoint& p) { return !std::isfinite(p.loss); });
  std::string warning;
  if (first != row.curve.end()) {
    warning = fmt::format("the training loss is not finite at step {}: the run diverged", first->step);
  } else {
    auto test = std::find_if(row.evaluations.begin(), row.evaluations.end(),
                             [](const EvaluationPoint& e) { return !std::isfinite(e.loss); });
    if (test != row.evaluations.end())
      warning = fmt::format("the test loss is not finite at step {}: the run diverged", test->step);
    else if (row.test && !std::isfinite(row.test->loss)) warning = "the test loss is not finite: the run diverged";
  }
  if (!warning.empty() && std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
    warnings.push_back(std::move(warning));
  return warnings;
}

json row_json(const RunResult& row) {
  json j = Writer::object(row);
  j["reason"] = row.reason.empty() ? json(nullptr) : json(row.reason);
  j["warnings"] = warnings_of(row);
  j["schedule"] = row.schedule ? *row.schedule : json(nullptr);
  return j;
}

RunResult read_row(const json& j) {
  RunResult row;
  Reader reader(j);
  each_field(reader, row);
  if (j.contains("target_accuracy")) reader("target_accuracy", row.target);  // its name in schema 1
  reader.maybe("reason", row.reason);
  reader.maybe("warnings", row.warnings);
  if (has(j, "schedule")) row.schedule = std::make_shared<const json>(read_schedule(j.at("schedule")));
  reader("timeline", row.timeline);
  return row;
}

/// Runs `read` and converts the exceptions of nlohmann's accessors and enum_of into one-line user errors.
template <typename Read>
auto reading(const std::string& where, Read read) {
  try {
    return read();
  } catch (const json::exception& e) {
    fail_user({where, "does not hold a result of Trireme", first_line(e), "see docs/run-folder.md for the fields"});
  } catch (const std::invalid_argument& e) {
    fail_user(
        {where, e.what(), "the file is damaged or from another version", "see docs/run-folder.md for the values"});
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
  json j = Writer::object(result);
  j.update({{"schema", kRunSchema},
            {"status", interrupted ? "interrupted" : "finished"},
            {"notes", strategy_notes(result)},
            {"rows", std::move(rows)}});
  return j;
}

ExperimentResult from_json(const json& j, const std::string& where) {
  return reading(where, [&] {
    int schema = j.at("schema").get<int>();
    if (schema < kOldestRunSchema || schema > kRunSchema)
      fail_user({where, fmt::format("schema = {}", schema),
                 fmt::format("this Trireme reads schemas {} to {}", kOldestRunSchema, kRunSchema),
                 "read it with the version that wrote it"});
    ExperimentResult result;
    Reader reader(j);
    each_field(reader, result);
    for (const json& row : j.at("rows")) result.rows.push_back(read_row(row));
    return result;
  });
}

json row_to_json(const RunResult& row) {
  json j = row_json(row);
  j["timeline"] = row.timeline ? Writer::object(*row.timeline) : json(nullptr);
  return j;
}

RunResult row_from_json(const json& j, const std::string& where) {
  return reading(where, [&] { return read_row(j); });
}

}  // namespace trireme
