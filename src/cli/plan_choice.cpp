#include "cli/plan_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/named.h"
#include "program/compile.h"
#include "train/trainer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool looks_like_file(const std::string& name) {
  return name.find('/') != name.npos || fs::path(name).extension() == ".json";
}

bool is_known(const std::string& name) {
  const auto known = known_strategies();
  return std::find(known.begin(), known.end(), name) != known.end();
}

}  // namespace

void check_plan_name(const std::string& name, const std::string& where) {
  if (is_known(name) || is_plan_file(name)) return;
  if (name.find('=') != name.npos && !looks_like_file(name)) return;  // degrees: named_plan checks each of them
  if (looks_like_file(name))
    fail_user({where, name, "there is no such file", "check the path; trireme plan EXPERIMENT > FILE writes a plan"});
  if (name == "hybrid")
    fail_user({where, "hybrid", "stands for two plans", "choose hybrid:tensor or hybrid:pipeline"});
  auto candidates = known_strategies();
  const std::string near = closest_match(name, candidates);
  fail_user({where, "\"" + name + "\"", "is neither a known plan nor a file that is there",
             near.empty() ? fmt::format("known are {}, and degrees such as data=2,tensor=2", join(candidates))
                          : fmt::format("did you mean \"{}\"?", near)});
}

std::optional<int> devices_of_degrees(const std::string& name) {
  int64_t product = 1;
  std::string_view rest = name;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == item.npos) return std::nullopt;
    const std::string_view key = item.substr(0, equals), number = item.substr(equals + 1);
    int value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value < 1) return std::nullopt;
    if (key == "data" || key == "tensor" || key == "pipeline") product *= value;
    else if (key != "micro_batches") return std::nullopt;
    if (product > kMaxDevices) return std::nullopt;
  }
  return int(product);
}

std::vector<std::string> join_degrees(const std::vector<std::string>& items) {
  std::vector<std::string> joined;
  std::vector<std::string> keys;  // of the degrees that the last of `joined` holds
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (equals == item.npos) {
      keys.clear();
      joined.push_back(item);
      continue;
    }
    const std::string key = item.substr(0, equals);
    const bool next_plan = keys.empty() || std::find(keys.begin(), keys.end(), key) != keys.end();
    if (next_plan) {
      keys.clear();
      joined.push_back(item);
    } else {
      joined.back() += "," + item;
    }
    keys.push_back(key);
  }
  return joined;
}

Plan load_plan_file(const std::string& file, const Experiment& experiment, const Model& model) {
  Plan plan = read_plan(file, model);
  validate(plan, model, experiment.batch, file);
  plan.name = fs::path(file).stem().string();  // `trireme plan` wrote "data" into it; edited, it is not that any more
  try {
    compile(model, plan, {.clip_gradients = experiment.clip_norm > 0,
                          .mixed_precision = experiment.precision == Precision::bf16, .batch_norm = experiment.batch_norm});
  } catch (const Error& error) {  // an unknown schedule, a deadlock: of this file
    Diagnosis diagnosis = error.diagnosis();
    if (diagnosis.where.starts_with("plan")) diagnosis.where = file;
    throw Error(error.blame(), std::move(diagnosis));
  }
  return plan;
}

Plan choose_plan(const std::string& name, const std::vector<int>& devices, const Experiment& experiment, const Model& model) {
  check_plan_name(name, "--plan");
  if (is_plan_file(name)) {
    Plan plan = load_plan_file(name, experiment, model);
    if (!devices.empty() && devices.front() != plan.devices)
      fail_user({"--devices", std::to_string(devices.front()), fmt::format("the plan in {} is for {}", name, plan.devices),
                 "leave --devices out"});
    return plan;
  }
  if (!devices.empty()) return make_plan(name, experiment, model, devices.front());
  return make_plan(name, experiment, model, devices_of_degrees(name).value_or(experiment.devices.front()));
}

std::string plan_text(const Plan& plan, const Model& model) {
  const nlohmann::json json = to_json(plan, model);
  auto line = [](const nlohmann::json& object, std::initializer_list<const char*> keys) {
    std::vector<std::string> pairs;
    for (const char* key : keys) pairs.push_back(fmt::format("\"{}\": {}", key, object.at(key).dump()));
    return join(pairs);
  };
  std::string text = "{\n";
  for (const auto* key : {"trireme_plan", "name", "model", "model_fingerprint", "devices", "schedule", "micro_batches"})
    text += fmt::format("  {},\n", line(json, {key}));
  auto list = [&](const char* name, std::initializer_list<const char*> keys) {
    std::vector<std::string> lines;
    for (const auto& entry : json.at(name)) lines.push_back("    {" + line(entry, keys) + "}");
    return fmt::format("  \"{}\": [\n{}\n  ]", name, join(lines, ",\n"));
  };
  return text + list("stages", {"workers"}) + ",\n" + list("layers", {"layer", "stage", "data", "tensor", "split"}) + "\n}\n";
}

}  // namespace trireme
