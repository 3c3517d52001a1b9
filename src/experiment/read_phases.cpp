#include "experiment/read_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/counted.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Keys, and beginnings of keys with a dot, that a phase may change beside `plan`.
constexpr std::array<std::string_view, 18> kChangeable = {"length",
                                                          "batch",
                                                          "frozen",
                                                          "data.image_size",
                                                          "data.sequence",
                                                          "data.augment",
                                                          "data.augmentation",
                                                          "optimizer",
                                                          "label_smoothing",
                                                          "precision",
                                                          "batch_norm",
                                                          "micro_batches",
                                                          "evaluate_every",
                                                          "target",
                                                          "early_stopping",
                                                          "stop_at_target",
                                                          "time_limit",
                                                          "data.pad_to_multiple_of"};

bool may_change(const std::string& key) {
  return std::any_of(kChangeable.begin(), kChangeable.end(), [&](std::string_view known) {
    return key == known || (key.starts_with(known) && key[known.size()] == '.');
  });
}

/// Lists the values of a table with dotted keys, and marks the keys as read.
void list_changes(const ConfigTable& table, const nlohmann::json& values, const std::string& prefix, PhaseSpec& spec) {
  for (const auto& [name, value] : values.items()) {
    table.has(name);
    const std::string key = prefix + name;
    if (value.is_object()) {
      list_changes(table.table(name), value, key + ".", spec);
      continue;
    }
    if (key == "plan") {
      spec.plan = table.require_string(name);
      continue;
    }
    if (!may_change(key))
      table.fail(name, "a phase cannot change this key",
                 fmt::format("it may change plan, {}",
                             join(std::vector<std::string>(kChangeable.begin(), kChangeable.end()))));
    spec.changes.push_back(fmt::format("{}={}", key, value.dump()));
  }
}

}  // namespace

std::vector<PhaseSpec> read_phases(const ConfigTable& file) {
  std::vector<PhaseSpec> phases;
  for (const ConfigTable& table : file.tables("phase")) {
    table.require_length("length");
    list_changes(table, table.to_json(), "", phases.emplace_back());
  }
  return phases;
}

void refuse_phase_as_key(const std::string& assignment) {
  constexpr std::string_view kPhase = "phase";
  if (!assignment.starts_with(kPhase) ||
      std::string_view("=.[").find(assignment[kPhase.size()]) == std::string_view::npos)
    return;
  fail_user({"--set", assignment, "phases are tables [[phase]] of the file, not a key",
             "choose one with --phase 1, or change the file"});
}

void change_to_phase(int phase, const std::vector<PhaseSpec>& phases, ConfigTable& file) {
  if (phase == 0) return;
  if (phase > int(phases.size()))
    fail_user({"--phase", std::to_string(phase),
               phases.empty() ? "the experiment has no [[phase]]"
                              : fmt::format("the experiment has {}", counted(int64_t(phases.size()), "phase")),
               phases.empty() ? "leave it out" : fmt::format("choose 1 to {}", phases.size())});
  for (const std::string& change : phases[size_t(phase) - 1].changes)
    file.override_with(change, fmt::format("phase {}: {}", phase, change));
}

void complete_phase(Experiment& experiment) {
  if (experiment.phase == 0) return;
  experiment.seed += uint64_t(experiment.phase) - 1;
  if (experiment.checkpoint.wanted()) return;
  experiment.checkpoint.every = experiment.length;
  experiment.checkpoint.keep = 1;
  experiment.checkpoint.where = experiment.where("phase");
}

}  // namespace trireme
