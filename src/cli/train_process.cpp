#include "cli/train_process.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cores.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/agreement.h"
#include "cli/plan_choice.h"
#include "cli/train_checkpoints.h"
#include "cli/train_command.h"
#include "comm/gloo/gloo.h"
#include "comm/interfaces.h"
#include "comm/mpi/mpi.h"
#include "comm/text_messages.h"
#include "comm/token.h"
#include "train/batches.h"
#include "train/follow.h"
#include "train/trainer.h"
#include "update/registry.h"

namespace trireme {
namespace {

constexpr int kRunFailed = 1, kUserError = 2;

std::string interface_of(const ProcessPlace& place) {
  const Variables variables = environment();
  for (const char* name : {kInterfaceVariable, "GLOO_SOCKET_IFNAME"}) {
    const std::string interface = variables(name).value_or("");
    if (interface.empty()) continue;
    check_interface(interface, fmt::format("environment variable {}", name));
    return interface;
  }
  return interface_towards(place.address);
}

/// How the ranks are connected.
struct Connection {
  std::unique_ptr<Communicator> world;
  std::string backend;
  std::string through;  ///< for people: "backend gloo through eth0"
};

Connection meet_over_mpi(const ProcessPlace& place) {
  if (const std::string interface = environment()(kInterfaceVariable).value_or(""); !interface.empty())
    fail_user({fmt::format("environment variable {}", kInterfaceVariable), interface, "MPI chooses its networks itself",
               "unset it; with Open MPI: mpirun --mca btl_tcp_if_include " + interface});
  return {mpi_communicator({.rank = place.rank, .size = place.size, .device = place.rank}), kMpiBackend, "backend mpi"};
}

Connection meet(const TrainOptions& options, const ProcessPlace& place) {
  if (options.backend == kMpiBackend) return meet_over_mpi(place);
  const std::string interface = interface_of(place);
  const std::string token = read_token({});
  if (!place.store_is_kept && token.empty() && !is_loopback(place.address))
    fail_user({fmt::format("environment variable {}", kTokenVariable), "is not set", fmt::format("anybody who reaches {} could join the run", place.address),
               "set it to the same on all machines: openssl rand -hex 16"});
  auto world = gloo_communicator({.rank = place.rank,
                                  .size = place.size,
                                  .address = place.address,
                                  .port = place.port,
                                  .token = token,
                                  .store_is_kept = place.store_is_kept,
                                  .store_prefix = place.store_prefix,
                                  .interface = interface,
                                  .device = place.rank});
  return {std::move(world), "gloo", "backend gloo through " + interface};
}

/// What one rank found when it read its input.
struct Finding {
  std::string agreement, error;
};

std::string text_of(const Finding& finding) { return nlohmann::json{{"agreement", finding.agreement}, {"error", finding.error}}.dump(); }

Finding finding_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {json.at("agreement"), json.at("error")};
}

/// Why the ranks cannot begin; "": they can.
std::string obstacle(const std::vector<std::string>& texts) {
  std::vector<Finding> findings;
  for (const std::string& text : texts) findings.push_back(finding_from(text));
  const std::string& first = findings.front().error;
  if (!first.empty() && std::all_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.error == first; })) return first;
  for (size_t rank = 0; rank < findings.size(); ++rank)
    if (!findings[rank].error.empty()) return fmt::format("rank {}: {}", rank, findings[rank].error);
  for (size_t rank = 1; rank < findings.size(); ++rank) {
    const std::string difference =
        first_difference(findings[0].agreement, findings[rank].agreement, {"on rank 0", fmt::format("on rank {}", rank)});
    if (!difference.empty())
      return fmt::format("rank {} is to train something else: {}; start all ranks with the same files and flags", rank, difference);
  }
  return "";
}

/// Every rank reads its input; all go on, or none. The reason is said by rank 0 alone. nullopt: none does.
std::optional<TrainSubject> agree(ProcessRank& process, const std::string& plan, const ExperimentOptions& options,
                                  const std::function<TrainSubject()>& read) {
  std::optional<TrainSubject> subject;
  Finding own;
  try {
    subject = read();
    own.agreement = strict_agreement(options, plan, subject->experiment, subject->model, subject->data);
  } catch (const std::exception& error) {
    own.error = first_line(error);
  }
  const std::vector<std::string> found = gather_texts(process.world(), text_of(own));
  const std::string reason = broadcast_text(process.world(), found.empty() ? "" : obstacle(found));
  if (reason.empty()) return subject;
  if (process.rank() == 0) std::cerr << "trireme: " << reason << "\n";
  return std::nullopt;
}

/// `resumption`: rank 0's, which alone reads it.
TrainSubject read_for_processes(const TrainOptions& options, const ProcessPlace& place, std::optional<Resumption>& resumption) {
  const std::vector<int>& devices = options.experiment.devices;
  if (!devices.empty() && devices.front() != place.size)
    fail_user({"--devices", std::to_string(devices.front()),
               fmt::format("by {} there are {} processes, each of them one worker", place.said_by, place.size), "leave --devices out"});
  if (is_update_policy(options.plan))
    fail_user({"--plan", options.plan, "replicas under an update policy are no ranks of a plan", "see trireme serve --help"});
  if (place.rank == 0) check_target("--json", options.json);
  TrainSubject subject = read_subject(options.experiment);
  Experiment& experiment = subject.experiment;
  const auto refuse = [&](const char* key, const char* why) {
    fail_user({fmt::format("{}: {}", experiment.file.string(), key), "is for workers that are threads", why, "leave it out"});
  };
  if (experiment.adapt) refuse("adapt", "a run of processes keeps its plan");
  if (experiment.links) refuse("cluster.link", "it emulates links between the threads of one process");
  experiment.private_replicas = true;
  experiment.devices = {place.size};
  if (place.rank == 0 && !options.resume.empty()) resumption = open_resumption(options.resume, experiment, subject.model, subject.data);
  return subject;
}

/// Rank 0's plan, on all ranks.
Plan shared_plan(ProcessRank& process, const TrainOptions& options, const TrainSubject& subject) {
  const auto& [experiment, data, model] = subject;
  if (process.rank() != 0) return plan_from_json(nlohmann::json::parse(broadcast_text(process.world(), "")), model, "rank 0's plan");
  Plan plan = choose_or_find_plan(options.plan, {}, experiment, model, data, options.prediction, /*to_run=*/true);
  if (plan.devices != process.size())
    fail_user({"--plan", options.plan, fmt::format("it is for {} workers, and there are {} processes", plan.devices, process.size()),
               "start as many, or choose another plan"});
  check_shapes(experiment, model, data, plan);
  check_checkpoints(experiment, data, plan);
  broadcast_text(process.world(), to_json(plan, model).dump());
  return plan;
}

int lead(const TrainOptions& options, const TrainSubject& subject, std::optional<Resumption> resumption, const std::shared_ptr<ProcessRank>& process,
         const std::string& through) {
  const Plan plan = shared_plan(*process, options, subject);
  TrainShow show{.plan = &plan};
  show.notes.push_back(fmt::format("{} processes on {} {}, {}", process->size(), process->machines(),
                                   process->machines() == 1 ? "machine" : "machines", through));
  CheckpointUse checkpoints;
  if (resumption) {
    show.initial_values = lines_of(*resumption);
    show.notes.insert(show.notes.end(), show.initial_values.begin(), show.initial_values.end());
    checkpoints.resumed = std::move(resumption->checkpoint);
  }
  show.on_folder = [&](const std::filesystem::path& folder) {
    checkpoints.folder = place_for_checkpoints(subject.experiment, folder);
    const std::filesystem::path logs = std::filesystem::absolute(folder) / "logs";
    log_to_file(logs / "rank-0.log");
    broadcast_text(process->world(), logs.string());
  };
  return train_into_folder(options, subject, show, [&](TrainObserver& observer) {
    return train(subject.experiment, subject.model, subject.data, plan, observer, interrupted_by_user(), nullptr, std::move(checkpoints),
                 process);
  });
}

int work_along(const TrainOptions& options, const TrainSubject& subject, const std::shared_ptr<ProcessRank>& process) {
  const int rank = process->rank();
  const Plan plan = shared_plan(*process, options, subject);
  const std::filesystem::path logs = broadcast_text(process->world(), "");
  log_to_file(logs / fmt::format("rank-{}.log", rank));
  spdlog::info("rank {} of {}: process {}, cores {}, plan {}", rank, process->size(), ::getpid(), describe_cores(usable_cores()),
               plan.in_short(subject.model));
  follow(subject.experiment, subject.model, subject.data, plan, process, interrupted_by_user());
  spdlog::info("rank {} is through", rank);
  return interrupted_by_user() ? kRunFailed : 0;
}

/// The other ranks: who fails says so, who is ended by it does not.
int quietly(ProcessRank& process, const std::function<int()>& work) {
  const int rank = process.rank();
  try {
    return work();
  } catch (const std::exception& error) {
    const bool own = process.abort_reason().starts_with(fmt::format("rank {}", rank)) && !interrupted_by_user();
    if (own) spdlog::error("rank {} failed: {}", rank, first_line(error));
    else spdlog::info("rank {} was stopped: {}", rank, first_line(error));
    return kRunFailed;
  }
}

}  // namespace

int run_train_process(const TrainOptions& options, const ProcessPlace& place) {
  if (place.rank != 0) keep_console_quiet();
  Connection connection = meet(options, place);
  const auto process = std::make_shared<ProcessRank>(std::move(connection.world), connection.backend);
  const auto work = [&] {
    std::optional<Resumption> resumption;
    const auto subject = agree(*process, options.plan, options.experiment, [&] { return read_for_processes(options, place, resumption); });
    if (!subject) return kUserError;
    if (subject->experiment.checkpoint.wanted()) allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
    return place.rank == 0 ? lead(options, *subject, std::move(resumption), process, connection.through) : work_along(options, *subject, process);
  };
  return place.rank == 0 ? work() : quietly(*process, work);
}

}  // namespace trireme
