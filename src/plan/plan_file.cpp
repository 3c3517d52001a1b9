// Plans as JSON. A missing key means the default, because older files lack newer keys. Defaults are not written.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

constexpr int kPlanFormat = 1;

/// Reads an int. JSON's own conversion would cut off fractions and wrap values that are too large.
int whole_number(const nlohmann::json& value, std::string_view what, const std::string& where) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= INT32_MAX
                        : value.is_number_integer() && value.get<int64_t>() == value.get<int32_t>();
  if (!fits) fail_user({where, fmt::format("{} = {}", what, value.dump()), "must be a whole number", "correct it"});
  return value.get<int>();
}
int whole_number(const nlohmann::json& json, const char* key, const std::string& where) {
  return whole_number(json.at(key), std::string_view(key), where);
}

/// Throws a user error for an unknown key. A misspelt key would otherwise silently mean the default.
void require_known(const nlohmann::json& json, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = closest_match(key, known);
    fail_user({where, fmt::format("key \"{}\"", key), "is not a key of a plan",
               near.empty() ? "known are " + join(known) : fmt::format("did you mean \"{}\"?", near)});
  }
}

bool flag(const nlohmann::json& json, const char* key, bool fallback, const std::string& where) {
  if (!json.contains(key)) return fallback;
  const nlohmann::json& value = json.at(key);
  if (!value.is_boolean())
    fail_user({where, fmt::format("{} = {}", key, value.dump()), "must be true or false", "correct it"});
  return value.get<bool>();
}

/// Returns the one of `values` whose name is in the JSON.
template <class Value>
Value named_value(const nlohmann::json& json, const char* key, std::initializer_list<Value> values,
                  const std::string& where) {
  std::vector<std::string> names;
  for (Value value : values) {
    if (json.is_string() && json.get<std::string>() == name_of(value)) return value;
    names.emplace_back(name_of(value));
  }
  const std::string near = json.is_string() ? closest_match(json.get<std::string>(), names) : "";
  fail_user({where, fmt::format("{} = {}", key, json.dump()), "is not known",
             near.empty() ? "known are " + join(names) : fmt::format("did you mean \"{}\"?", near)});
}

/// Reads "bf16", or {"kind": "powersgd", "rank": 4}.
Compression read_compression(const nlohmann::json& json, const std::string& where) {
  using enum Compression::Kind;
  Compression compression;
  if (!json.is_object()) {
    compression.kind = named_value(json, "compression", {none, bf16, bf16_stored, powersgd}, where);
    return compression;
  }
  require_known(json, {"kind", "rank"}, where + ": compression");
  compression.kind = named_value(json.at("kind"), "compression: kind", {none, bf16, bf16_stored, powersgd}, where);
  if (json.contains("rank")) {
    if (compression.kind != powersgd)
      fail_user({where, fmt::format("compression: rank with {}", name_of(compression.kind)), "only powersgd has a rank",
                 "leave it out"});
    compression.rank = whole_number(json, "rank", where + ": compression");
  }
  return compression;
}

nlohmann::json write_compression(const Compression& compression) {
  if (compression.kind != Compression::Kind::powersgd) return name_of(compression.kind);
  return {{"kind", name_of(compression.kind)}, {"rank", compression.rank}};
}

std::vector<int> read_cluster_devices(const nlohmann::json& json, const std::string& where) {
  std::vector<int> devices;
  if (!json.is_array())
    fail_user({where, fmt::format("cluster_devices = {}", json.dump()), "must be a list of numbers",
               "give one per worker: [4, 5, 6, 7]"});
  for (const nlohmann::json& value : json)
    devices.push_back(whole_number(value, std::string_view("cluster_devices"), where));
  return devices;
}

std::vector<double> read_speeds(const nlohmann::json& json, const std::string& where) {
  std::vector<double> speeds;
  const auto is_number = [](const nlohmann::json& value) { return value.is_number(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_number))
    fail_user({where, fmt::format("speeds = {}", json.dump()), "must be a list of numbers",
               "give one per device: [1.0, 0.5]"});
  for (const nlohmann::json& value : json) speeds.push_back(value.get<double>());
  return speeds;
}

void read_head(const nlohmann::json& json, const std::string& where, Plan& plan) {
  require_known(json,
                {"trireme_plan",
                 "name",
                 "model",
                 "model_fingerprint",
                 "devices",
                 "schedule",
                 "vertical_sync",
                 "micro_batches",
                 "recompute_last",
                 "recompute_communication",
                 "scatter_messages",
                 "optimizer_sharding",
                 "sharding_group",
                 "compression",
                 "cluster_devices",
                 "speeds",
                 "stages",
                 "layers",
                 "replicas",
                 "agreement"},
                where);
  if (int format = whole_number(json, "trireme_plan", where); format != kPlanFormat)
    fail_user({where, fmt::format("trireme_plan = {}", format),
               fmt::format("this version reads format {}", kPlanFormat), "make the plan again with this version"});
  plan.name = json.value("name", "");
  plan.model = json.at("model").get<std::string>();
  plan.model_fingerprint = json.at("model_fingerprint").get<std::string>();
  plan.devices = whole_number(json, "devices", where);
  plan.schedule = json.at("schedule").get<std::string>();
  plan.vertical_sync = flag(json, "vertical_sync", plan.vertical_sync, where);
  plan.micro_batches = whole_number(json, "micro_batches", where);
  plan.recompute_last = flag(json, "recompute_last", plan.recompute_last, where);
  plan.recompute_communication = flag(json, "recompute_communication", plan.recompute_communication, where);
  plan.scatter_messages = flag(json, "scatter_messages", plan.scatter_messages, where);
  using enum OptimizerSharding;
  if (json.contains("optimizer_sharding"))
    plan.optimizer_sharding =
        named_value(json.at("optimizer_sharding"), "optimizer_sharding", {none, zero1, zero2, zero3}, where);
  if (json.contains("sharding_group")) plan.sharding_group = whole_number(json, "sharding_group", where);
  if (json.contains("compression")) plan.compression = read_compression(json.at("compression"), where);
  if (json.contains("cluster_devices")) plan.cluster_devices = read_cluster_devices(json.at("cluster_devices"), where);
  if (json.contains("speeds")) plan.speeds = read_speeds(json.at("speeds"), where);
  if (json.contains("replicas")) plan.replicas = whole_number(json, "replicas", where);
  if (plan.replicas < 1 || int64_t{plan.replicas} * plan.devices > kMaxPlanDevices)
    fail_user({where, fmt::format("{} replicas of {}", plan.replicas, counted(plan.devices, "device")),
               fmt::format("a plan has at least one replica, and at most {} devices", kMaxPlanDevices),
               "correct replicas or devices"});
  plan.agreement = json.value("agreement", "");
}

/// Throws a user error for keys that would have no effect. The same keys of a strategy are refused too.
void check_effects(const Plan& plan, const std::string& where) {
  const auto any = [&](const auto& has) { return std::any_of(plan.layers.begin(), plan.layers.end(), has); };
  if (plan.scatter_messages &&
      (plan.stages.size() < 2 || !any([](const LayerPlan& layer) { return layer.tensor > 1; })))
    fail_user({where, "scatter_messages = true", "slices are what tensor ranks of one stage send to another stage",
               "use it with several stages and tensor degrees above 1, or leave it out"});
  if (plan.recompute_communication && !any([](const LayerPlan& layer) { return !layer.recompute.empty(); }))
    fail_user({where, "recompute_communication = true", "no layer is recomputed",
               "give layers a \"recompute\" label, or leave it out"});
}

void read_layers(const nlohmann::json& json, const Model& model, const std::string& where, Plan& plan) {
  std::set<NodeId> seen;
  for (const auto& entry : json.at("layers")) {
    auto name = entry.at("layer").get<std::string>();
    NodeId id = model.find(name);
    if (id < model.input_count())
      fail_user({where, fmt::format("layer \"{}\"", name), "the model has no layer of that name", "correct the name"});
    if (!seen.insert(id).second)
      fail_user({where, fmt::format("layer \"{}\"", name), "is listed twice", "remove one of the entries"});
    const std::string at = fmt::format("{}: layer {}", where, name);
    require_known(entry, {"layer", "stage", "data", "tensor", "split", "recompute"}, at);
    plan.layers[size_t(id)] = {whole_number(entry, "stage", at), whole_number(entry, "data", at),
                               whole_number(entry, "tensor", at), entry.at("split").get<std::string>(),
                               entry.value("recompute", "")};
  }
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    if (!seen.count(id))
      fail_user({where, fmt::format("layer \"{}\"", model.node(id).name), "is missing from \"layers\"",
                 "add an entry for it"});
}

}  // namespace

nlohmann::json to_json(const Plan& plan, const Model& model) {
  nlohmann::json layers = nlohmann::json::array(), stages = nlohmann::json::array();
  for (const auto& workers : plan.stages) stages.push_back({{"workers", workers}});
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerPlan& layer = plan.layers[size_t(id)];
    layers.push_back({{"layer", model.node(id).name},
                      {"stage", layer.stage},
                      {"data", layer.data},
                      {"tensor", layer.tensor},
                      {"split", layer.split}});
    if (!layer.recompute.empty()) layers.back()["recompute"] = layer.recompute;
  }
  nlohmann::json json{{"trireme_plan", kPlanFormat},
                      {"name", plan.name},
                      {"model", plan.model},
                      {"model_fingerprint", plan.model_fingerprint},
                      {"devices", plan.devices},
                      {"schedule", plan.schedule},
                      {"micro_batches", plan.micro_batches},
                      {"stages", stages},
                      {"layers", layers}};
  const Plan usual;
  if (plan.vertical_sync != usual.vertical_sync) json["vertical_sync"] = plan.vertical_sync;
  if (plan.recompute_last != usual.recompute_last) json["recompute_last"] = plan.recompute_last;
  if (plan.recompute_communication != usual.recompute_communication)
    json["recompute_communication"] = plan.recompute_communication;
  if (plan.scatter_messages != usual.scatter_messages) json["scatter_messages"] = plan.scatter_messages;
  if (plan.optimizer_sharding != usual.optimizer_sharding)
    json["optimizer_sharding"] = name_of(plan.optimizer_sharding);
  if (plan.sharding_group != usual.sharding_group) json["sharding_group"] = plan.sharding_group;
  if (plan.compression.kind != usual.compression.kind) json["compression"] = write_compression(plan.compression);
  if (plan.cluster_devices != usual.cluster_devices) json["cluster_devices"] = plan.cluster_devices;
  if (plan.speeds != usual.speeds) json["speeds"] = plan.speeds;
  if (plan.replicas != usual.replicas) json["replicas"] = plan.replicas;
  if (plan.agreement != usual.agreement) json["agreement"] = plan.agreement;
  return json;
}

Plan plan_from_json(const nlohmann::json& json, const Model& model, const std::string& where) {
  Plan plan;
  const auto refuse = [&](std::string why) {
    fail_user({where, "not a plan", std::move(why), "compare with a plan.json of a run folder"});
  };
  if (!json.is_object())
    refuse(fmt::format("a plan is a JSON object, this is {} {}", json.is_array() ? "an" : "a", json.type_name()));
  try {
    read_head(json, where, plan);
    for (const auto& stage : json.at("stages")) {
      require_known(stage, {"workers"}, where + ": stages");
      auto& workers = plan.stages.emplace_back();
      for (const auto& worker : stage.at("workers"))
        workers.push_back(whole_number(worker, std::string_view("worker"), where));
    }
    plan.layers.resize(model.nodes().size());
    // a plan of another model is reported by validate(); its layer names need not match
    if (plan.model_fingerprint == model.fingerprint()) {
      read_layers(json, model, where, plan);
      check_effects(plan, where);
    }
  } catch (const nlohmann::json::exception& error) {
    const std::string text = first_line(error);  // "[json.exception.out_of_range.403] key 'devices' not found"
    refuse(text.substr(std::min(text.size(), text.find("] ") + 2)));
  }
  return plan;
}

Plan read_plan(const std::filesystem::path& file, const Model& model) {
  return plan_from_json(read_json_file(file), model, file.string());
}

}  // namespace trireme
