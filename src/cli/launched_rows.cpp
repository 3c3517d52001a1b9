#include "cli/launched_rows.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/fork_server.h"
#include "cli/options.h"
#include "cli/plan_choice.h"
#include "cli/row_process.h"
#include "report/progress.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

json to_json(const Link& link, const TransferWork& work) {
  return {link.bandwidth, link.latency, work.of_message, work.of_byte};
}

void read(const json& numbers, Link& link, TransferWork& work) {
  link.bandwidth = numbers.at(0);
  link.latency = numbers.at(1);
  work = {numbers.at(2), numbers.at(3)};
}

/// Runs the processes of a measurement. Returns why they failed; "": they did not.
std::string run_measurement(const LaunchedRows& rows, int processes, const ExperimentOptions& experiment,
                            const std::vector<std::string>& more, const std::function<void(const json&)>& on_message,
                            ForkServer& forks, Progress& progress) {
  std::vector<std::string> words = rows.words(processes);
  words.emplace_back("train");
  words = experiment.words_after(std::move(words));
  words.emplace_back("--messages");
  words.insert(words.end(), more.begin(), more.end());
  const ChildEnd end = run_child(words, /*hard_limit=*/0, interrupted_by_user(), on_message, &forks,
                                 [&](std::string_view warning) { progress.say(warning); });
  return end.exit_code == 0 ? "" : reason_of(end);
}

}  // namespace

std::vector<std::string> LaunchedRows::words(int count) const {
  if (count < 2) return {};
  std::vector<std::string> words{"launch"};
  const std::vector<LaunchHost> used = first_processes(hosts, count);
  if (used.size() == 1 && is_this_machine(used.front().name)) {
    words.insert(words.end(), {"-n", std::to_string(count)});
  } else {
    std::vector<std::string> texts;
    texts.reserve(used.size());
    for (const LaunchHost& host : used) texts.push_back(fmt::format("{}:{}", host.name, host.processes));
    words.insert(words.end(), {"--hosts", join(texts, ",")});
  }
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

std::string LaunchedRows::in_words() const {
  return fmt::format("{} on {}", counted(processes(), "process", "processes"),
                     counted(int64_t(hosts.size()), "machine"));
}

std::optional<ProcessMachines> measure_machines(const LaunchedRows& rows, const ExperimentOptions& experiment,
                                                ForkServer& forks, Progress& progress) {
  std::optional<ProcessMachines> machines;
  const auto take = [&](const json& message) {
    if (message.value("type", "") != "machines") return;
    machines.emplace();
    message.at("of_rank").get_to(machines->of_rank);
    message.at("cores").get_to(machines->cores);
    read(message.at("within"), machines->within, machines->work_within);
    read(message.at("network"), machines->network, machines->work_between);
    machines->redistributions.ranks = int(machines->of_rank.size());
    for (const json& one : message.at("redistributions"))
      machines->redistributions.of[RedistributionKind(one.at(0).get<int>())] = {one.at(1), one.at(2)};
    if (const json& buffers = message.at("buffers"); !buffers.is_null())
      machines->buffers = MessageBuffers{.inline_bytes = buffers.at("inline_bytes"),
                                         .posted = buffers.at("posted"),
                                         .posted_bytes = buffers.at("posted_bytes")};
  };
  const std::string why =
      run_measurement(rows, rows.processes(), experiment, {"--measure", kMeasureMachines}, take, forks, progress);
  if (!machines && !interrupted_by_user())
    fail_run({rows.in_words(), "the links between them could not be measured", why,
              "check the processes' hosts and flags; --no-predict compares without measuring it"});
  return machines;
}

MeasureStep trial_between_processes(const LaunchedRows& rows, const ExperimentOptions& experiment, const Model& model,
                                    std::string plan_file, ForkServer& forks, Progress& progress) {
  return [&, plan_file = std::move(plan_file)](const Plan& plan) {
    write_file_atomically(plan_file, plan_text(plan, model));
    std::optional<TrialStep> step;
    const auto take = [&](const json& message) {
      if (message.value("type", "") != "trial") return;
      step.emplace(TrialStep{.seconds = message.at("seconds"), .why_not = message.at("why_not")});
      if (message.contains("core_seconds")) step->core_seconds = message.at("core_seconds").get<double>();
    };
    std::string why = run_measurement(rows, plan.devices, experiment, {"--plan", plan_file, "--measure", kMeasureStep},
                                      take, forks, progress);
    std::error_code ignored;
    std::filesystem::remove(plan_file, ignored);
    if (!step) step.emplace(TrialStep{.why_not = why.empty() ? "it said nothing" : std::move(why)});
    return *step;
  };
}

std::string machines_message(const ProcessMachines& machines) {
  json redistributions = json::array();
  for (const auto& [kind, work] : machines.redistributions.of)
    redistributions.push_back({int(kind), work.of_message, work.of_byte});
  json buffers;
  if (machines.buffers)
    buffers = {{"inline_bytes", machines.buffers->inline_bytes},
               {"posted", machines.buffers->posted},
               {"posted_bytes", machines.buffers->posted_bytes}};
  return json{{"type", "machines"},
              {"of_rank", machines.of_rank},
              {"cores", machines.cores},
              {"within", to_json(machines.within, machines.work_within)},
              {"network", to_json(machines.network, machines.work_between)},
              {"redistributions", redistributions},
              {"buffers", buffers}}
      .dump();
}

std::string trial_message(const TrialStep& step) {
  json message{{"type", "trial"}, {"seconds", step.seconds}, {"why_not", step.why_not}};
  if (step.core_seconds) message["core_seconds"] = *step.core_seconds;
  return message.dump();
}

}  // namespace trireme
