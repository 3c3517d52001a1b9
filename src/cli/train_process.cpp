#include "cli/train_process.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cores.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/text_parts.h"
#include "cli/described_devices.h"
#include "cli/exit_codes.h"
#include "cli/forked_program.h"
#include "cli/left_behind.h"
#include "cli/process_plan.h"
#include "cli/rank_group.h"
#include "cli/same_input.h"
#include "cli/train_checkpoints.h"
#include "cli/train_folder.h"
#include "cli/virtual_machines.h"
#include "comm/backend_list.h"
#include "comm/flight_recorder.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/process_place.h"
#include "comm/rendezvous/text_messages.h"
#include "comm/rendezvous/token.h"
#include "experiment/make_plan.h"
#include "experiment/replica_spec.h"
#include "experiment/run_device.h"
#include "forecast/agreement_plan.h"
#include "plan/strategies.h"
#include "report/earlier_run.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/follower_rank.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Fragments of the abort reasons of a run whose rank 0 is dead, frozen or cut off.
constexpr const char* kRank0Lost[] = {"rank 0 is gone", "rank 0 has shown no sign of life",
                                      "which rank 0 keeps, is gone"};

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

/// The flight recorder of this process. trireme launch reads it; under other launchers only this process' own threads
/// do.
struct OwnRecorder {
  std::shared_ptr<FlightRecorder> recorder;
  bool launcher_reads = false;
};

OwnRecorder own_recorder() {
  const std::string text = environment()(kRecorderVariable).value_or("");
  if (text.empty()) return {std::make_shared<FlightRecorder>()};
  const std::optional<int> file = number_in<int>(text);
  if (!file)
    fail_user({fmt::format("environment variable {}", kRecorderVariable), fmt::format("\"{}\"", text),
               "is set by trireme launch for its ranks only", "unset it"});
  OwnRecorder own{std::make_shared<FlightRecorder>(*file), true};
  ::close(*file);
  ::unsetenv(kRecorderVariable);  // not for processes that this one starts
  return own;
}

/// How the ranks are connected.
struct Connection {
  std::unique_ptr<Communicator> world;
  std::string backend;
  std::string through;  ///< for messages: "backend gloo through eth0"
};

const BackendKind& backend_of(const TrainOptions& options) {
  const BackendKind* named = look_up_backend(options.backend);
  return named ? *named : usual_process_backend();
}

/// Checks what is the same for all ranks of a machine. Errors (user).
void check_environment(const TrainOptions& options, const ProcessPlace& place) {
  const BackendKind& backend = backend_of(options);
  if (!backend.is_available())
    fail_user({"--backend", backend.name, "this build does not have it", "trireme doctor lists what it has"});
  if (backend.finds_ranks) {
    const std::string interface = environment()(kInterfaceVariable).value_or("");
    if (interface.empty()) return;
    fail_user({fmt::format("environment variable {}", kInterfaceVariable), interface, backend.interface_why,
               fmt::format("unset it; {}{}", backend.interface_next, interface)});
  }
  interface_of(place);
  if (!place.store_is_kept && read_token({}).empty() && !is_loopback(place.address))
    fail_user({fmt::format("environment variable {}", kTokenVariable), "is not set",
               fmt::format("any process that reaches {} could join the run", place.address),
               "set it to the same on all machines: openssl rand -hex 16"});
}

Connection join_ranks(const TrainOptions& options, const ProcessPlace& place,
                      const std::shared_ptr<FlightRecorder>& recorder) {
  const BackendKind& backend = backend_of(options);
  JoinOptions join{.place = place, .recorder = recorder};
  std::string through = fmt::format("backend {}", backend.name);
  if (!backend.finds_ranks) {
    join.interface = interface_of(place);
    join.token = read_token({});
    through += " through " + join.interface;
  }
  return {backend.join(join), backend.name, through};
}

/// What one rank found when it read its input.
struct Finding {
  std::string input, error;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, input, error)

/// Returns why the ranks cannot begin; "" if they can.
std::string obstacle(const std::vector<std::string>& texts) {
  std::vector<Finding> findings;
  for (const std::string& text : texts) findings.push_back(nlohmann::json::parse(text).get<Finding>());
  const std::string& first = findings.front().error;
  if (!first.empty() &&
      std::all_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.error == first; }))
    return first;
  for (size_t rank = 0; rank < findings.size(); ++rank)
    if (!findings[rank].error.empty()) return fmt::format("rank {}: {}", rank, findings[rank].error);
  for (size_t rank = 1; rank < findings.size(); ++rank) {
    const std::string difference =
        first_difference(findings[0].input, findings[rank].input, {"on rank 0", fmt::format("on rank {}", rank)});
    if (!difference.empty())
      return fmt::format("rank {} would train something else: {}; start all ranks with the same files and flags", rank,
                         difference);
  }
  return "";
}

/// Every rank reads its input. All ranks continue, or none. Only rank 0 prints the reason. nullopt: none continues.
std::optional<TrainSubject> agree(ProcessRank& process, const std::string& plan, const ExperimentOptions& options,
                                  const std::function<TrainSubject()>& read) {
  std::optional<TrainSubject> subject;
  Finding own;
  try {
    const LongWork reading(flight_recorder(process.world()), "reading its input");
    subject = read();
    own.input = compared_input_of_rank(options, plan, subject->experiment, subject->model, subject->data);
  } catch (const std::exception& error) {
    own.error = first_line(error);
  }
  // an error may quote bytes that are not UTF-8
  const std::string sent = nlohmann::json(own).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::vector<std::string> found = gather_texts(process.world(), sent);
  const std::string reason = broadcast_text(process.world(), found.empty() ? "" : obstacle(found));
  if (reason.empty()) return subject;
  if (process.rank() == 0) std::cerr << "trireme: " << reason << "\n";
  return std::nullopt;
}

/// One rank of a run: the data with which it was started, and its group.
struct Member {
  TrainOptions options;
  ProcessPlace place;
  std::optional<ElasticGroup> elastic_group;  ///< set in an elastic run
  std::shared_ptr<ProcessRank> process;

  bool goes_on() const { return elastic_group && elastic_group->number > 0; }
};

/// True if the plan may have an agreement. The state to resume then depends on the plan, which is made later.
bool may_agree(const TrainOptions& options) { return is_update_policy(options.plan) || is_plan_file(options.plan); }

// Returns the state that the run resumes; nullopt if it begins anew.
std::optional<Resumption> resumption_of(const Member& member, const TrainSubject& subject) {
  const auto& [experiment, data, model] = subject;
  if (member.goes_on())
    if (auto own = open_own_resumption(member.elastic_group->folder, experiment, model, data)) return own;
  if (member.options.resume.empty() || may_agree(member.options)) return std::nullopt;
  return open_resumption(member.options.resume, experiment, model, data);
}

/// Where the batch is per device: sets that of all processes. A resumed run keeps the batch of its checkpoint, and an
/// elastic run that of its first group. Only rank 0 need see the run's folder: share_batch() tells the others.
void set_batch_of_processes(const Member& member, RunSpec& experiment) {
  if (!awaits_devices(experiment)) return;
  const TrainOptions& options = member.options;
  const int processes = member.place.size;
  if (member.goes_on()) {
    const std::vector<ElasticGroupRecord> records = read_records(member.elastic_group->folder);
    experiment = with_batch_on(std::move(experiment), records.empty() ? processes : records.front().processes);
    if (keep_batch(member.elastic_group->folder, options.plan, experiment)) return;
  } else {
    const bool of_replicas = is_update_policy(options.plan) && !is_plan_file(options.plan);
    experiment = of_row(experiment, options.plan,
                        of_replicas ? processes * devices_of_replica(options.plan, experiment) : processes);
  }
  if (!options.resume.empty()) keep_batch(options.resume, options.plan, experiment);
}

/// All ranks take the global batch that rank 0 has found. Collective, where the batch is per device.
void share_batch(ProcessRank& process, RunSpec& experiment) {
  if (experiment.batch_per_device == 0) return;
  const std::string batch =
      broadcast_text(process.world(), process.rank() == 0 ? std::to_string(experiment.batch) : "");
  experiment.batch = number_in<int64_t>(batch).value_or(experiment.batch);
}

/// `resumption`: set on rank 0 only, which reads it.
TrainSubject read_for_processes(const Member& member, std::optional<Resumption>& resumption) {
  const TrainOptions& options = member.options;
  const ProcessPlace& place = member.place;
  const std::vector<int>& devices = options.experiment.devices;
  if (!devices.empty() && devices.front() != place.size)
    fail_user({"--devices", std::to_string(devices.front()),
               fmt::format("there are {1} processes (by {0}), each of them one worker", place.launcher, place.size),
               "leave --devices out"});
  refuse_described_machines(options.prediction);
  if (place.rank == 0) check_target("--json", options.json);
  Progress progress;
  TrainSubject subject =
      open_subject(RunSpec{options.experiment.read_for_devices()}, place.rank == 0 ? &progress : nullptr);
  RunSpec& experiment = subject.experiment;
  const auto refuse = [&](const char* key, const char* why) {
    fail_user({experiment.where(key), "is for workers that are threads", why, "leave it out"});
  };
  if (experiment.adapt) refuse("adapt", "a run of processes cannot change its plan");
  if (experiment.links) refuse("cluster.link", "it emulates links between the threads of one process");
  if (experiment.elastic && !member.elastic_group)
    fail_user({experiment.where("elastic"), "is for trireme launch",
               "other launchers end all processes when one is lost",
               "leave it out; trireme launch train --resume resumes the run"});
  const BackendKind& backend = backend_of(options);
  if (backend.between_gpus && experiment.device == c10::DeviceType::CPU)
    fail_user({"--backend", backend.name, "is for workers on GPUs", "add --device cuda, or use --backend gloo"});
  experiment.private_replicas = experiment.processes = true;
  experiment.rank = place.rank;
  experiment.rank_on_machine = member.process->rank_on_machine();
  check_device(experiment);
  experiment.devices = {place.size};
  set_batch_of_processes(member, experiment);
  if (place.rank == 0) resumption = resumption_of(member, subject);
  return subject;
}

/// Describes the cores of all ranks; each of them may be bound to its share.
std::string machines_in_words(const ProcessRank& process) {
  Machine machine = inspect_machine(/*time_product=*/false);
  if (process.machines() > 1)
    return fmt::format("{}, together {}; rank 0's: {}", counted(process.machines(), "machine"),
                       counted(process.cores(), "core"), summary(machine));
  machine.cores = process.cores();
  return summary(machine);
}

/// Also writes notices to rank 0's log.
class Notices : public TrainObserver {
 public:
  explicit Notices(TrainObserver& observer) : observer_(observer) {}
  void on_step(const StepReport& report) override { observer_.on_step(report); }
  void on_evaluation(const EvaluationPoint& point) override { observer_.on_evaluation(point); }
  void on_weights(const Weights& weights) override { observer_.on_weights(weights); }
  void on_notice(const std::string& line) override {
    observer_.on_notice(line);
    log_to_files_only(line);
  }

 private:
  TrainObserver& observer_;
};

/// Returns a line about a group that its launcher ended so that a larger group continues; "" for any other group.
std::string handed_over(const Member& member, const RunResult& row) {
  if (!member.elastic_group || row.status != RunStatus::interrupted || !asked_by_signal()) return "";
  const int64_t last = row.curve.empty() ? 0 : row.curve.back().step,
                from = row.checkpoints ? row.checkpoints->newest_step : 0;
  const std::string where = from == last && from > 0 ? ""
                            : from > 0               ? fmt::format(" after step {}", from)
                                                     : " from its beginning";
  return fmt::format("this group of {} ends after step {}, so that the run continues with {} ranks{}",
                     member.process->size(), last, member.elastic_group->next_processes, where);
}

/// Returns the first line of a rank's log.
std::string log_header(ProcessRank& process, const Plan& plan, const Model& model) {
  return fmt::format("rank {} of {}: process {}, cores {}, plan {}", process.rank(), process.size(), ::getpid(),
                     describe_cores(usable_cores()), plan.in_short(model));
}

int lead(const Member& member, const TrainSubject& subject, std::optional<Resumption> resumption, std::string through) {
  const std::shared_ptr<ProcessRank>& process = member.process;
  const std::optional<ElasticGroup>& elastic_group = member.elastic_group;
  const Plan plan = plan_of_processes(member.options, backend_of(member.options), process, subject, through);
  if (!resumption && !member.options.resume.empty())
    resumption = open_resumption(member.options.resume, plan, subject.experiment, subject.model, subject.data);
  const bool starts_anew = !resumption && !member.options.start_from.empty();
  if (starts_anew) resumption = open_start(member.options, plan, subject.experiment, subject.model);
  else if (resumption) note_factors_left(plan, subject.experiment, subject.model, *resumption);
  TrainShow show{.plan = &plan, .goes_on = member.goes_on()};
  show.notes.push_back(fmt::format("{} on {}, {}", counted(process->size(), "process", "processes"),
                                   counted(process->machines(), "machine"), through));
  const int workers = plan.workers();
  if (std::string device = device_in_words(subject.experiment, std::min(process->gpus(), workers)); !device.empty())
    show.notes.push_back(std::move(device));
  show.describe = [&](ExperimentResult& result) { result.machine = machines_in_words(*process); };
  CheckpointUse checkpoints;
  GoesOnFrom begun_at;
  if (resumption) {
    show.initial_values = starts_anew ? resumption->notices : lines_of(*resumption);
    show.notes.insert(show.notes.end(), show.initial_values.begin(), show.initial_values.end());
    begun_at = point_of(*resumption);
    checkpoints.resumed = std::move(resumption->checkpoint);
  }
  EarlierRun earlier;
  if (show.goes_on)
    earlier = rewind_metrics(elastic_group->folder, begun_at,
                             metric_names(subject.data.train->task(), subject.data.train->classes()));
  show.on_folder = [&](const std::filesystem::path& folder) {
    if (resumption && !show.goes_on && !starts_anew) keep_earlier_steps(resumption->path, begun_at, folder);
    if (!member.options.is_row()) checkpoints.folder = place_for_checkpoints(subject.experiment, folder, show.goes_on);
    if (!checkpoints.folder.empty()) checkpoints.data = fingerprint_for_checkpoints(subject.experiment, subject.data);
    log_to_file(rank_log(folder, 0));
    log_to_files_only(log_header(*process, plan, subject.model));
    flight_recorder(process->world())->set_run_folder(folder.string());
    broadcast_text(process->world(), std::filesystem::absolute(folder).string());
    if (elastic_group) append_record(*elastic_group, process->size(), plan.in_short(subject.model), begun_at.step);
  };
  show.on_end = log_to_files_only;
  show.hands_over = [&](const RunResult& row) { return handed_over(member, row); };
  return train_into_folder(member.options, subject, show, [&](TrainObserver& observer) {
    Notices notices(observer);
    RunResult row = train(subject.experiment, subject.model, subject.data, plan, notices, interrupted_by_user(),
                          nullptr, std::move(checkpoints), process);
    if (elastic_group) add_earlier_groups(elastic_group->folder, earlier, row);
    return row;
  });
}

int follow(const Member& member, const TrainSubject& subject, std::string through) {
  const std::shared_ptr<ProcessRank>& process = member.process;
  const int rank = process->rank();
  const Plan plan = plan_of_processes(member.options, backend_of(member.options), process, subject, through);
  const std::string folder = broadcast_text(process->world(), "");
  log_to_file(rank_log(folder, rank));
  flight_recorder(process->world())->set_run_folder(folder);
  spdlog::info("{}", log_header(*process, plan, subject.model));
  spdlog::info("{}", through);
  run_follower_rank(subject.experiment, subject.model, subject.data, plan, process, interrupted_by_user());
  spdlog::info("rank {} has finished", rank);
  return interrupted_by_user() ? kRunFailed : 0;
}

/// True if a reason begins with this rank: "rank 1, barrier: ...", but not "rank 12 failed".
bool is_named_first(const std::string& reason, int rank) {
  const std::string name = fmt::format("rank {}", rank);
  return reason.starts_with(name) &&
         (reason.size() == name.size() || !std::isdigit(static_cast<unsigned char>(reason[name.size()])));
}

/// For a run that lost its rank 0 under another launcher than trireme's. Rank 1 then prints the newest checkpoint and
/// the command that resumes it.
void print_newest_checkpoint(ProcessRank& process) {
  const std::string reason = process.abort_reason();
  const bool lost = std::any_of(std::begin(kRank0Lost), std::end(kRank0Lost),
                                [&](const char* words) { return reason.find(words) != reason.npos; });
  const std::string folder = flight_recorder(process.world())->read().run_folder;
  if (lost && process.rank() == 1 && !folder.empty()) std::cerr << left_behind(folder, "");
}

/// For rank 0: also writes the error that ends it to its log.
int with_log(const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    log_to_files_only(first_line(error));
    throw;
  }
}

/// True if rank 0 has the same error: all ranks agreed on their input.
bool is_of_input(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known && known->blame() == Blame::user;
}

/// Runs `work` on ranks other than 0. A rank that fails prints its error; a rank that another rank ended does not.
int quietly(ProcessRank& process, bool launcher_reads, const std::function<int()>& work) {
  const int rank = process.rank();
  try {
    const int code = work();
    if (interrupted_by_user()) flight_recorder(process.world())->set_interrupted();
    return code;
  } catch (const std::exception& error) {
    if (interrupted_by_user()) flight_recorder(process.world())->set_interrupted();
    if (const double pause = flight_recorder(process.world())->longest_pause(); pause > kSilenceSeconds) {
      spdlog::warn("rank {} was stopped for {:.0f} s, and the others did not wait", rank, pause);
      return kRunFailed;
    }
    // A failure of the worker's thread has already ended the other ranks. A failure of the main thread has not.
    if (process.abort_reason().empty() && !is_of_input(error) && !interrupted_by_user())
      process.abort(fmt::format("rank {} failed: {}", rank, first_line(error)));
    const bool own = is_named_first(process.abort_reason(), rank) && !interrupted_by_user();
    if (own) spdlog::error("rank {} failed: {}", rank, first_line(error));
    else spdlog::info("rank {} was stopped: {}", rank, first_line(error));
    if (!launcher_reads) print_newest_checkpoint(process);
    return kRunFailed;
  }
}

}  // namespace

int run_train_process(TrainOptions options, const ProcessPlace& place,
                      const std::optional<ElasticGroup>& elastic_group) {
  if (place.rank != 0) keep_console_quiet();
  if (elastic_group) {
    options.experiment.out = elastic_group->folder;
    options.plan = elastic_group->plan;
    if (elastic_group->number > 0) options.experiment.devices.clear();  // devices belong to the first group
  }
  options.processes = place.size;
  options.elastic = elastic_group.has_value();
  // A rank of an elastic run that gets SIGTERM (for example on a drained node) or SIGHUP counts as lost, and the others
  // continue. The launcher itself ends ranks with SIGINT.
  if (elastic_group) {
    std::signal(SIGTERM, SIG_DFL);
    if (!ignores_hangup()) std::signal(SIGHUP, SIG_DFL);
    end_by_signal(kMakeRoomSignal);
  }
  const OwnRecorder own = own_recorder();
  try {
    check_environment(options, place);
  } catch (const Error&) {
    if (place.local_rank > 0) return kUserError;  // the first rank of this machine reports it
    throw;
  }
  const Heartbeat heartbeat(own.recorder);
  Connection connection = join_ranks(options, place, own.recorder);
  Member member{std::move(options), place, elastic_group,
                std::make_shared<ProcessRank>(std::move(connection.world), connection.backend)};
  const auto work = [&] {
    std::optional<Resumption> resumption;
    const auto read = [&] { return read_for_processes(member, resumption); };
    auto subject = agree(*member.process, member.options.plan, member.options.experiment, read);
    if (!subject) return member.goes_on() ? kRunFailed : kUserError;  // fewer processes would have the same input
    share_batch(*member.process, subject->experiment);
    if (RunSpec& experiment = subject->experiment; experiment.device != c10::DeviceType::CPU) {
      member.process->count_gpus(gpu_ids(experiment));
      experiment.gpus = member.process->gpus();
    } else if (is_planned(member.options.plan)) {
      experiment.process_machines = std::make_shared<const ProcessMachines>(member.process->measure_machines());
    }
    if (subject->experiment.checkpoint.wanted()) allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
    if (!member.options.measure.empty()) {
      measure_for_comparison(member.options, backend_of(member.options), member.process, *subject);
      return 0;
    }
    return place.rank == 0 ? lead(member, *subject, std::move(resumption), connection.through)
                           : follow(member, *subject, connection.through);
  };
  return place.rank == 0 ? with_log(work) : quietly(*member.process, own.launcher_reads, work);
}

void check_started_once(const std::string& verb) {
  const std::optional<ProcessPlace> place = process_place(environment(), {.needs_address = false});
  if (!place) return;
  fail_user({"trireme " + verb,
             fmt::format("was started as {} processes, according to {}", place->size, place->launcher),
             "only train shares its work between processes",
             "start it once (trireme launch compare compares between processes); if no launcher is used, unset those "
             "variables"});
}

}  // namespace trireme
