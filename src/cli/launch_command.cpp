#include "cli/launch_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <sstream>

#include "base/cores.h"
#include "base/counted.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/elastic_launch.h"
#include "cli/exit_codes.h"
#include "cli/experiment_header.h"
#include "cli/forked_program.h"
#include "cli/launch_hosts.h"
#include "cli/launch_place.h"
#include "cli/launch_script.h"
#include "cli/left_behind.h"
#include "cli/plan_choice.h"
#include "cli/rank_group.h"
#include "cli/train_checkpoints.h"
#include "cli/train_folder.h"
#include "cli/train_phases.h"
#include "cli/train_process.h"
#include "cli/virtual_machines.h"
#include "comm/backend_list.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/token.h"
#include "experiment/make_plan.h"
#include "report/run_folder.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char *kLaunched = "train", *kLaunchedRows = "compare";
constexpr const char* kTokenFromInput = "--token-from-input";
constexpr const char* kValueFlags[] = {
    "-n",           "--hosts",         "--interface",     "--port",          "--ssh",
    "--print",      "--restarts",      "--restart-after", "--elastic-group", "--token-file",
    "--first-rank", "--all-processes", "--address",       "--launched-by"};
constexpr int64_t kMostRestarts = 1'000'000;

std::atomic<bool> launch_interrupted{false};

/// Returns a flag that becomes true when the user presses Ctrl-C, sends SIGTERM or closes the terminal. A process whose
/// end is requested ends within seconds (interrupted_by_user); the launcher waits for it.
const std::atomic<bool>& interrupted_launch() {
  struct sigaction action {};
  action.sa_handler = [](int) { launch_interrupted = true; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (signal != SIGHUP || !ignores_hangup()) ::sigaction(signal, &action, nullptr);
  return launch_interrupted;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// Returns the user's command up to "train". Ranks on other machines get it from the launcher that started them.
std::string launched_by(const LaunchOptions& options) {
  if (!options.launched_by.empty()) return options.launched_by;
  std::vector<std::string> words{"trireme", "launch"};
  if (options.hosts.empty()) words.insert(words.end(), {"-n", std::to_string(options.processes)});
  else words.insert(words.end(), {"--hosts", join(options.hosts, ",")});
  if (!options.interface.empty()) words.insert(words.end(), {"--interface", options.interface});
  if (options.port != 0) words.insert(words.end(), {"--port", std::to_string(options.port)});
  if (options.ssh != LaunchOptions().ssh) words.insert(words.end(), {"--ssh", options.ssh});
  if (!options.token_file.empty()) words.insert(words.end(), {"--token-file", options.token_file.string()});
  if (!options.bind) words.emplace_back("--no-bind");
  if (options.restarts > 0) words.insert(words.end(), {"--restarts", std::to_string(options.restarts)});
  if (!options.restart_after.empty()) words.insert(words.end(), {"--restart-after", options.restart_after});
  return shell_line(words);
}

/// The ranks of one machine.
struct LocalRanks {
  int first = 0, count = 1, all = 1;
  std::string address = {};
  int port = 0;
  std::string host = {};
  std::string elastic_group = {};  ///< empty: the run is not elastic
};

void start_ranks(const LaunchOptions& options, const LocalRanks& local, RankGroup& group) {
  // Processes that share a core take turns on it. The system can move them to a core that another one leaves idle.
  const bool binds = options.bind && local.count <= int(usable_cores().size());
  const std::vector<std::vector<int>> shares =
      binds ? core_shares(local.count) : std::vector<std::vector<int>>(size_t(local.count));
  const std::string program = own_program();
  for (int r = 0; r < local.count; ++r) {
    const int rank = local.first + r;
    MemberStart member{.name = fmt::format("rank {}", rank),
                       .words = {program},
                       .rank = rank,
                       .host = local.host,
                       .cores = shares[size_t(r)],
                       .own_output = rank == 0,
                       .recorded = true};
    member.words.insert(member.words.end(), options.words.begin(), options.words.end());
    member.variables = {{"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", std::to_string(local.all)},
                        {"LOCAL_RANK", std::to_string(r)},
                        {"LOCAL_WORLD_SIZE", std::to_string(local.count)},
                        {"MASTER_ADDR", local.address},
                        {"MASTER_PORT", std::to_string(local.port)},
                        {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                        {kLaunchedByVariable, launched_by(options)}};
    if (!options.interface.empty()) member.variables.emplace_back(kInterfaceVariable, options.interface);
    if (!local.elastic_group.empty()) member.variables.emplace_back(kElasticGroupVariable, local.elastic_group);
    if (rank != 0) member.prefix = fmt::format("rank {}: ", rank);
    group.start(member);
  }
}

/// Starts a launch on another machine for its ranks: this program, which must have the same path there, in the same
/// working folder.
void start_host(const LaunchOptions& options, const LaunchHost& host, const LocalRanks& ranks, RankGroup& group) {
  std::vector<std::string> there{own_program(),
                                 "launch",
                                 "-n",
                                 std::to_string(ranks.count),
                                 "--first-rank",
                                 std::to_string(ranks.first),
                                 "--all-processes",
                                 std::to_string(ranks.all),
                                 "--address",
                                 ranks.address,
                                 "--port",
                                 std::to_string(ranks.port),
                                 kTokenFromInput,
                                 "--launched-by",
                                 launched_by(options)};
  if (!options.interface.empty()) there.insert(there.end(), {"--interface", options.interface});
  if (!ranks.elastic_group.empty()) there.insert(there.end(), {"--elastic-group", ranks.elastic_group});
  if (!options.bind) there.emplace_back("--no-bind");
  there.insert(there.end(), options.words.begin(), options.words.end());
  MemberStart member{.name = fmt::format("host {}", host.name),
                     .words = {},
                     .host = host.name,
                     .own_output = ranks.first == 0,
                     .input = environment()(kTokenVariable).value_or(""),
                     .until_input_ends = true};
  std::istringstream command(options.ssh);
  member.words.assign(std::istream_iterator<std::string>(command), {});
  member.words.push_back(host.name);
  member.words.push_back(
      fmt::format("cd {} && exec {}", shell_quoted(std::filesystem::current_path().string()), shell_line(there)));
  group.start(member);
}

/// Sets the ranks' token in the environment that they inherit. It appears on no command line.
void set_token(const LaunchOptions& options) {
  const std::string token = token_of(options);
  ::setenv(kTokenVariable, token.c_str(), /*overwrite=*/1);  // NOLINT(concurrency-mt-unsafe): one thread calls it
}

/// Used by an agent; the user's launch sends the token through ssh. Reads not a byte more, because the end of the input
/// ends the agent.
void set_token_from_input() {
  std::string token;
  for (char c = 0; token.size() <= kLongestToken && ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n';) token += c;
  ::setenv(kTokenVariable, token.c_str(), /*overwrite=*/1);
}

/// "; its log: runs/mnist/logs/rank-1.log". Empty if it has none. `folder`: of the run; empty: not known.
std::string log_of(std::optional<int> rank, const std::string& folder) {
  if (folder.empty() || !rank) return "";
  const std::filesystem::path log = rank_log(folder, *rank);
  std::error_code ignored;
  return std::filesystem::exists(log, ignored) ? "; its log: " + log.string() : "";
}

int report(const LaunchOptions& options, const GroupEnd& end) {
  for (const std::string& operation : end.operations) std::cerr << "trireme: last operations: " << operation << "\n";
  const std::string& folder = end.written_folder.empty() ? end.run_folder : end.written_folder;
  if (!end.culprit.empty()) std::cerr << "trireme: " << end.culprit << log_of(end.culprit_rank, folder) << "\n";
  // A killed rank 0 has not written its result. Of the launches on several machines, that of rank 0 completes it.
  if (!end.culprit.empty() && !folder.empty() && options.first_rank <= 0)
    name_cause(folder, end.culprit, options.train.json);
  // A comparison reads the last line as the cause. A run in phases says itself how it goes on.
  if (!end.run_folder.empty() && !options.train.is_row() && options.train.phases.empty())
    std::cerr << left_behind(end.run_folder, resume_command(launched_by(options), options.train, end.run_folder));
  return end.exit_code;
}

/// Starts the ranks of all machines. `elastic_group`: of an elastic run; otherwise "".
void start_all(const LaunchOptions& options, const std::vector<LaunchHost>& hosts, const std::string& elastic_group,
               RankGroup& group) {
  LocalRanks ranks{.all = processes_of(hosts),
                   .address = address_for(options, hosts),
                   .port = port_for(options, hosts.front()),
                   .elastic_group = elastic_group};
  for (const LaunchHost& host : hosts) {
    ranks.count = host.processes;
    ranks.host = host.name;
    if (is_this_machine(host.name)) start_ranks(options, ranks, group);
    else start_host(options, host, ranks, group);
    ranks.first += host.processes;
  }
}

/// Writes the record of a group that ended before it wrote one itself.
void leave_record(const ElasticGroup& group, int processes) {
  const std::optional<FoundCheckpoint> newest = newest_complete(group.folder);
  try {
    complete_records(group, processes, newest ? newest->step : 0);
  } catch (const Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";  // the run matters more than its records
  }
}

/// Reports the end of a run that does not continue; its last group did not know that it was the last.
void report_elastic(const LaunchOptions& options, GroupEnd end, const std::filesystem::path& folder) {
  if (end.exit_code != 0) end.run_folder = folder.string();
  LaunchOptions elastic = options;
  elastic.train.elastic = true;  // it is no row of a comparison, also with --messages
  report(elastic, end);
  const std::filesystem::path& from = options.train.resume;
  if (end.exit_code == kRunFailed && !from.empty() && !newest_complete(folder) && options.train.phases.empty())
    std::cerr << "to resume: " << resume_command(launched_by(options), options.train, from) << "\n";
}

/// Runs one group after another until one finishes the run or no group can continue it.
int run_elastic(const LaunchOptions& options, const Experiment& experiment, const std::vector<LaunchHost>& hosts) {
  const ElasticOptions elastic{
      .restarts = options.restarts,
      .restart_after = options.restart_after.empty() ? 0 : parse_time_limit(options.restart_after, "--restart-after")};
  const std::optional<std::filesystem::path>& out = options.train.experiment.out;
  ElasticLaunch launch(hosts, options.train.plan, out ? *out : free_run_path(experiment.name), elastic);
  while (true) {
    RankGroup group;
    group.allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
    if (launch.seconds_until_joining()) group.make_room_after(*launch.seconds_until_joining());
    const ElasticGroup elastic_group = launch.elastic_group();
    const std::vector<LaunchHost> used = launch.hosts();
    start_all(options, used, to_text(elastic_group), group);
    const GroupEnd end = group.wait(interrupted_launch());
    const bool goes_on = !interrupted_launch() && launch.goes_on(end);
    if (elastic_group.number > 0 || !launch.notice().empty()) leave_record(elastic_group, processes_of(used));
    if (!goes_on) report_elastic(options, end, elastic_group.folder);
    if (!launch.notice().empty()) std::cerr << "trireme: " << launch.notice() << "\n" << std::flush;
    if (!goes_on) return end.exit_code;
  }
}

/// Reads the experiment as far as a launch needs it. Errors (user): see run_launch.
Experiment read_for_launch(const LaunchOptions& options) {
  check_start(options.train);
  refuse_described_machines(options.train.prediction);
  Experiment experiment = options.train.messages ? options.train.experiment.read_for_devices()
                                                 : options.train.experiment.read_with_phases();
  if (experiment.elastic && !experiment.checkpoint.wanted())
    fail_user({experiment.where("elastic"), "needs checkpoints", "the run resumes the newest one when a rank is lost",
               "add [checkpoint] every = \"1 epochs\", or leave elastic out"});
  if (!experiment.elastic && (options.restarts > 0 || !options.restart_after.empty()))
    fail_user({options.restarts > 0 ? "--restarts" : "--restart-after", "is for elastic runs",
               fmt::format("{} does not have elastic = true", experiment.file.string()), "add --set elastic=true"});
  if (experiment.elastic && options.restarts == 0 && !options.restart_after.empty())
    fail_user({"--restart-after", options.restart_after, "no lost rank is replaced without --restarts",
               "add --restarts 1, or leave it out"});
  return experiment;
}

/// Checks what all launches need.
void check_number(const LaunchOptions& options, int processes) {
  if (options.ssh.find_first_not_of(' ') == std::string::npos)
    fail_user({"--ssh", "\"\"", "is not a command", "leave it out, or name one"});
  if (processes < 2)
    fail_user({"-n", std::to_string(processes), "one process needs no launcher",
               fmt::format("use trireme {}, or launch at least 2", options.words.front())});
}

void check_options(const LaunchOptions& options, int processes) {
  const std::vector<int>& devices = options.train.experiment.devices;
  if (!devices.empty() && devices.front() != processes)
    fail_user({"--devices", std::to_string(devices.front()),
               fmt::format("launched: {}, each of them one worker", counted(processes, "process", "processes")),
               "leave --devices out"});
  check_number(options, processes);
}

/// True if the experiment is elastic. A file that is on the job's machines only is not read.
bool is_elastic(const ExperimentOptions& options) {
  if (std::filesystem::exists(options.experiment)) return options.read_for_devices().elastic;
  return std::find(options.set.begin(), options.set.end(), "elastic=true") != options.set.end();
}

/// Refuses flags and experiments that no other launcher supports. Errors (user): also those of an experiment with
/// phases, whose job could not run.
void check_printed(const LaunchOptions& options) {
  const auto refuse = [&](const char* flag, const char* why, const char* next) {
    fail_user({flag, fmt::format("--print {}", options.print), why, next});
  };
  if (options.restarts > 0) refuse("--restarts", "only trireme launch replaces lost ranks", "leave it out");
  if (!options.restart_after.empty())
    refuse("--restart-after", "only trireme launch replaces lost ranks", "leave it out");
  if (!options.token_file.empty())
    refuse("--token-file", "a script's ranks get their token from the environment",
           "set TRIREME_TOKEN where the job is started");
  if (options.ssh != LaunchOptions().ssh) refuse("--ssh", "the script starts nothing through ssh", "leave it out");
  if (is_elastic(options.train.experiment))
    refuse("elastic", "other launchers end all processes when one is lost",
           "leave elastic out; trireme launch train --resume resumes the run");
}

/// Checks the name of a script's plan. Files that may be on the job's machines only are not read, as a line says.
void check_named_files(const TrainOptions& train) {
  std::vector<std::string> elsewhere;
  if (!std::filesystem::exists(train.experiment.experiment)) elsewhere.push_back(train.experiment.experiment.string());
  if (train.plan.ends_with(".json") && !std::filesystem::exists(train.plan)) elsewhere.push_back(train.plan);
  else check_plan_name(train.plan, "--plan");
  if (!elsewhere.empty())
    std::cerr << "trireme: not checked, because there is no such file here: " << join(elsewhere) << "\n" << std::flush;
}

}  // namespace

void add_launch(CLI::App& app, LaunchOptions& o, const std::function<void(CLI::App&, TrainOptions&)>& add_train,
                const std::function<void(CLI::App&, CompareOptions&)>& add_compare) {
  auto* verb = app.add_subcommand("launch",
                                  "train or compare with workers that are processes, on this machine or several: "
                                  "trireme launch -n 4 train EXPERIMENT ...");
  verb->add_option("-n", o.processes, "number of processes, one worker each (default: that of --hosts)")
      ->check(whole_number(1, kMaxDevices));
  verb->add_option("--hosts", o.hosts,
                   "hosts and their processes, \"a:2,b:2\", started through ssh; the first has rank 0 "
                   "(default: this machine)")
      ->delimiter(',');
  verb->add_option("--interface", o.interface,
                   "network interface for communication, with this name on every host "
                   "(default: the one that leads to rank 0's host; lo on one machine)");
  verb->add_option("--port", o.port, "port on which rank 0 listens for the rendezvous (default: any free one)")
      ->check(whole_number(1, 65535));
  verb->add_option("--ssh", o.ssh, "command that runs a shell command line on a host")->capture_default_str();
  verb->add_flag_callback(
      "--no-bind", [&o] { o.bind = false; }, "do not bind each process to its share of the cores");
  verb->add_option("--print", o.print,
                   "print a job script for another launcher and start nothing: "
                   "slurm, kubernetes, mpi, torchrun")
      ->check(CLI::IsMember(script_kinds()));
  verb->add_option(
      "--token-file", o.token_file,
      "file whose first line is the run's token (default: the variable TRIREME_TOKEN, otherwise a new token)");
  verb->add_flag(kTokenFromInput, o.token_from_input)->group("");
  verb->add_option("--restarts", o.restarts,
                   "elastic run: number of lost ranks to replace (default: 0, the others continue alone)")
      ->check(whole_number(0, kMostRestarts));
  verb->add_option("--restart-after", o.restart_after,
                   "elastic run: time before lost ranks are replaced (default: \"0 s\")");
  verb->add_option("--elastic-group", o.elastic_group)->group("");
  verb->add_option("--first-rank", o.first_rank)->group("");
  verb->add_option("--all-processes", o.all_processes)->group("");
  verb->add_option("--address", o.address)->group("");
  verb->add_option("--launched-by", o.launched_by)->group("");
  verb->require_subcommand(1);
  add_train(*verb, o.train);
  add_compare(*verb, o.compare);
}

std::vector<std::string> launched_words(int argc, const char* const* argv) {
  for (int i = 2; i < argc; ++i) {
    const bool is_value =
        std::find(std::begin(kValueFlags), std::end(kValueFlags), std::string(argv[i - 1])) != std::end(kValueFlags);
    const std::string word = argv[i];
    if ((word == kLaunched || word == kLaunchedRows) && !is_value) return {argv + i, argv + argc};
  }
  return {};
}

/// Runs an agent, on another machine than the user's launch.
int run_agent(const LaunchOptions& options) {
  RankGroup group;
  if (!options.interface.empty()) check_interface(options.interface, "--interface");
  if (options.token_from_input) set_token_from_input();
  if (!options.elastic_group.empty()) group.allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
  group.be_agent();
  start_ranks(options,
              {options.first_rank, options.processes, options.all_processes, options.address, options.port, "",
               options.elastic_group},
              group);
  GroupEnd end = group.wait(interrupted_launch());
  if (options.first_rank > 0) end.written_folder.clear();  // only the launch of rank 0 completes its run.json
  report(options, end);
  return options.elastic_group.empty() || end.lost.empty() ? end.exit_code
                                                           : std::min(kLostRanks + int(end.lost.size()), kHostLost - 1);
}

/// Runs a comparison, which starts the processes of each row with the same flags.
int launch_compare(const LaunchOptions& options) {
  const auto refuse = [](const char* flag) {
    fail_user(
        {flag, "is for trireme launch train", "a comparison starts the processes of each row anew", "leave it out"});
  };
  if (!options.print.empty()) refuse("--print");
  if (options.restarts > 0) refuse("--restarts");
  if (!options.restart_after.empty()) refuse("--restart-after");
  check_started_once("launch compare");
  CompareOptions compare = options.compare;
  compare.launched.hosts = read_hosts(options.hosts, options.processes);
  check_number(options, processes_of(compare.launched.hosts));
  // Each row's launch checks this again. A mistake must not end a long comparison at its first row.
  address_for(options, compare.launched.hosts);
  check_port(options, compare.launched.hosts.front());
  token_of(options);
  std::vector<std::string>& flags = compare.launched.flags;
  if (!options.interface.empty()) flags.insert(flags.end(), {"--interface", options.interface});
  if (options.port != 0) flags.insert(flags.end(), {"--port", std::to_string(options.port)});
  if (options.ssh != LaunchOptions().ssh) flags.insert(flags.end(), {"--ssh", options.ssh});
  if (!options.bind) flags.emplace_back("--no-bind");
  if (!options.token_file.empty()) flags.insert(flags.end(), {"--token-file", options.token_file.string()});
  return run_compare(compare);
}

/// Trains with processes, in one group or in several. Returns the exit code.
int launch_train(const LaunchOptions& options, const Experiment& experiment, const std::vector<LaunchHost>& hosts) {
  if (experiment.elastic) return run_elastic(options, experiment, hosts);
  RankGroup group;
  if (experiment.checkpoint.wanted()) group.allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
  start_all(options, hosts, "", group);
  return report(options, group.wait(interrupted_launch()));
}

int run_launch(const LaunchOptions& options) {
  if (options.first_rank >= 0) return run_agent(options);
  if (!options.words.empty() && options.words.front() == kLaunchedRows) return launch_compare(options);
  const BackendKind* named = look_up_backend(options.train.backend);
  if (named && named->modelled_time) refuse_processes();
  const std::vector<LaunchHost> hosts = read_hosts(options.hosts, options.processes);
  check_options(options, processes_of(hosts));
  const BackendKind& backend = named ? *named : usual_process_backend();
  if (backend.finds_ranks && !options.interface.empty())
    fail_user({"--interface", options.interface, backend.interface_why, backend.interface_next + options.interface});
  if (!options.print.empty()) {
    check_printed(options);
    check_named_files(options.train);
    std::cout << launch_script(options.print,
                               {hosts, options.interface, options.port, &backend, options.words, options.bind});
    return 0;
  }
  if (backend.finds_ranks)
    fail_user({"--backend", backend.name, "MPI finds the processes of its own launchers only",
               "start them with mpirun, or print a script: --print mpi"});
  set_token(options);
  const Experiment experiment = read_for_launch(options);
  if (experiment.phases.empty() || experiment.phase > 0) {
    refuse_folder_of_phases(options.train);
    return launch_train(options, experiment, hosts);
  }
  address_for(options, hosts);  // each phase checks them again; a mistake must not end the run at its first phase
  check_port(options, hosts.front());
  TrainOptions all = options.train;
  all.processes = processes_of(hosts);
  return run_phases(
      all, experiment,
      [&](const TrainOptions& phase) {
        LaunchOptions one = options;
        one.train = phase;
        one.words = words_of_phase(phase);
        return launch_train(one, read_for_launch(one), hosts);
      },
      launched_by(options));
}

}  // namespace trireme
