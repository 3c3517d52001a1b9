#include "cli/same_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

#include "base/machine.h"
#include "trireme/config.h"
#include "trireme/program.h"

namespace trireme {
namespace {

constexpr const char* kModel = "the model";
constexpr const char* kSamples = "the number of training samples";
constexpr const char* kOwnData = "--own-data";
constexpr const char* kData = "data";

// Keys that may differ between machines, and keys that only the server reads. A table's name covers all its keys.
constexpr std::array<std::string_view, 25> kOwn = {
    "checkpoint",   "name",           "seed",           "devices",       "strategies", "time_limit", "device_memory",
    "threads",      "device_threads", "device_speeds",  "cluster",       "price",      "target",     "evaluate_every",
    "save_weights", "adapt",          "translation",    "data.workers",  "data.path",  "device",     "step_graph",
    "copy_ahead",   "gradient_norm",  "early_stopping", "stop_at_target"};

constexpr std::array<std::string_view, 2> kOfMachine = {"data.workers", "data.path"};

bool is_one_of(std::span<const std::string_view> keys, std::string_view key) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view own) {
    return key == own || (key.starts_with(own) && key.substr(own.size()).starts_with("."));
  });
}

void flatten(const nlohmann::json& table, const std::string& prefix, std::span<const std::string_view> without,
             nlohmann::json& flat) {
  for (const auto& [key, value] : table.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (is_one_of(without, name)) continue;
    if (value.is_object()) flatten(value, name, without, flat);
    else flat[name] = value;
  }
}

/// `own_data`: omit the data's keys.
nlohmann::json flat_table(const ExperimentOptions& options, const Model& model, const TaskData& data,
                          std::span<const std::string_view> without, bool own_data = false) {
  ConfigTable file = ConfigTable::from_file(options.experiment);
  file.allow_short_form("model", "name");
  for (const std::string& assignment : options.set) file.override_with(assignment);
  if (options.steps) file.override_with(fmt::format("length={} steps", *options.steps));
  nlohmann::json all = file.to_json(), flat = nlohmann::json::object();
  if (own_data) {
    all.erase(kData);
    flat[kOwnData] = true;
  } else {
    flat[kSamples] = data.train->size();
  }
  flatten(all, "", without, flat);
  flat[kModel] = model.fingerprint();
  return flat;
}

std::string text_of(const nlohmann::json& values, const std::string& key) {
  return values.contains(key) ? values.at(key).dump() : "not set";
}

}  // namespace

std::string compared_input(const ExperimentOptions& options, const Model& model, const TaskData& data, bool own_data) {
  return flat_table(options, model, data, kOwn, own_data).dump();
}

std::string compared_input_of_rank(const ExperimentOptions& options, const std::string& plan, const RunSpec& experiment,
                                   const Model& model, const TaskData& data) {
  nlohmann::json flat = flat_table(options, model, data, kOfMachine);
  flat["--plan"] = plan;
  flat["seed"] = experiment.seed;
  flat["the version of trireme"] = version().number;
  flat["the version of libtorch"] = inspect_machine(false).libtorch;
  return flat.dump();
}

std::string first_difference(const std::string& our_text, const std::string& their_text, const Sides& sides) {
  const nlohmann::json ours = nlohmann::json::parse(our_text),
                       theirs = nlohmann::json::parse(their_text, nullptr, /*allow_exceptions=*/false);
  if (!theirs.is_object()) return "it did not send a readable description of its run";
  std::set<std::string> keys;
  for (const nlohmann::json* side : {&ours, &theirs})
    for (const auto& [key, value] : side->items()) keys.insert(key);
  for (const std::string& key : keys) {
    const std::string here = text_of(ours, key), there = text_of(theirs, key);
    if (here == there) continue;
    if (key == kModel) return "its model is different: layers, shapes or edges differ";
    return fmt::format("{}: {} {}, {} {}", key, here, sides.ours, there, sides.theirs);
  }
  return "";
}

}  // namespace trireme
