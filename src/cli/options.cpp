#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <system_error>

#include "base/memory.h"
#include "base/text_parts.h"
#include "base/units.h"
#include "checkpoint/checkpoint_weights.h"
#include "cli/foreign_flags.h"
#include "cli/forked_program.h"
#include "experiment/read_experiment.h"
#include "plan/strategy.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

std::atomic<unsigned> last_seconds{4};  // a program that has not ended by then is killed
static_assert(std::atomic<unsigned>::is_always_lock_free, "read by a signal handler");

std::atomic<int> other_signal{0}, came{0};
static_assert(std::atomic<int>::is_always_lock_free, "used by a signal handler");

/// When a connection is closed, the shell and the system send SIGHUP, one after the other.
void on_signal(int signal) {
  if (interrupted && signal == SIGHUP) return;
  if (interrupted && came != SIGHUP) ::_exit(1);  // second interrupt
  came = signal;
  interrupted = true;
  ::alarm(last_seconds);
}
void on_alarm(int) { ::_exit(1); }

}  // namespace

void ExperimentOptions::add_common(CLI::App& app) {
  app.add_option("experiment", experiment, "experiment file (TOML)")->required();
  app.add_option("--set", set, "override a key of the experiment, for example --set batch=256")
      ->allow_extra_args(false);
  app.add_option("--data-dir", data_dir, "folder with the data set");
  app.add_option("--seed", seed, "seed of weights, sample order, dropout and augmentation")->check(whole_number(0));
  app.add_option("--phase", phase, "of an experiment with [[phase]] tables: this phase alone, from 1")
      ->check(whole_number(1));
  app.add_flag("--trust", trust, "allow the code of a TorchScript model to run (model = \"own.pt\")");
}

Experiment ExperimentOptions::read() const {
  Experiment read = read_for_devices();
  if (awaits_devices(read))
    fail_user({read.where("batch"), fmt::format("{} per device", read.batch_per_device),
               "this command has no rows on numbers of devices", "name the global batch: --set batch=128"});
  return read;
}

Experiment ExperimentOptions::read_for_devices() const {
  Experiment read = read_with_phases();
  if (!read.phases.empty() && phase == 0)
    fail_user({read.where("phase"), "the experiment has phases",
               "only `trireme train` and `trireme launch train` run all phases, and not with --messages or --print",
               fmt::format("choose one: --phase 1 to {}", read.phases.size())});
  return read;
}

Experiment ExperimentOptions::read_with_phases() const {
  Experiment read = read_experiment(experiment, overrides());
  if (!read.model_file.empty()) check_trust(read.model_file);
  take_checkpoint_weights(read);
  return read;
}

void ExperimentOptions::check_trust(const std::filesystem::path& script) const {
  if (trust) return;
  fail_user({script.string(), "is a TorchScript file, which is a program",
             "opening it runs its code with your permissions",
             "add --trust if you know where it comes from; files of weights alone (a state dict, safetensors) are read "
             "without running code"});
}

void ExperimentOptions::add_devices(CLI::App& app, bool several, int most) {
  const char* help = several ? "numbers of workers, for example 2,4 (default: the experiment's)"
                             : "number of workers (default: the plan's, or the first of the experiment's)";
  auto* option = app.add_option("--devices", devices, help)->check(whole_number(1, most));
  if (several) option->delimiter(',');
  else option->expected(1);
}

void ExperimentOptions::add_device(CLI::App& app) {
  app.add_option("--device", device, "where the workers compute: cpu (default) or cuda");
}

void ExperimentOptions::add_run(CLI::App& app) {
  app.add_option("--steps", steps, "train this many steps instead of the experiment's length")->check(whole_number(1));
  add_device(app);
  app.add_option("--out", out, "run folder to create (default: runs/<name>-<time>)");
}

ExperimentOverrides ExperimentOptions::overrides() const {
  for (const std::string& assignment : set) refuse_foreign_key(assignment);
  return {set, data_dir, seed, steps, join_strategies(strategies, is_update_policy), devices, device, phase};
}

std::vector<std::string> ExperimentOptions::words_after(std::vector<std::string> words) const {
  words.push_back(experiment.string());
  for (const std::string& assignment : set) words.insert(words.end(), {"--set", assignment});
  if (data_dir) words.insert(words.end(), {"--data-dir", data_dir->string()});
  if (seed) words.insert(words.end(), {"--seed", std::to_string(*seed)});
  if (phase > 0) words.insert(words.end(), {"--phase", std::to_string(phase)});
  if (trust) words.push_back("--trust");
  if (device) words.insert(words.end(), {"--device", *device});
  if (steps) words.insert(words.end(), {"--steps", std::to_string(*steps)});
  return words;
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  auto check = [least, most](const std::string& text) -> std::string {
    const std::optional<int64_t> value = number_in<int64_t>(text);
    if (value && *value >= least && *value <= most) return "";
    std::string range = most == std::numeric_limits<int64_t>::max() ? fmt::format("of at least {}", least)
                                                                    : fmt::format("from {} to {}", least, most);
    return fmt::format("{}: must be one whole number {}", text, range);
  };
  return CLI::Validator(check, "");
}

double parse_time_limit(const std::string& text, const std::string& flag) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789.") == text.npos;
  const double value = parse_seconds(number ? text + " s" : text, flag);
  if (!(value > 0) || !std::isfinite(value))
    fail_user({flag, "\"" + text + "\"", "must be more than 0", fmt::format("for example {} \"60 s\"", flag)});
  return value;
}

void check_target(const std::string& flag, const std::filesystem::path& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) fail_user({flag, file.string(), "is a folder", "name a file"});
  if (!std::filesystem::is_directory(folder, ignored))
    fail_user({flag, file.string(), fmt::format("there is no folder {}", folder.string()),
               "create it or choose another path"});
  if (::access(folder.c_str(), W_OK) != 0)  // the file is replaced as a whole, so the folder's permissions decide
    fail_user({flag, file.string(), std::generic_category().message(errno), "choose a path that you may write to"});
}

void allow_seconds_after_interrupt(unsigned seconds) { last_seconds = seconds; }

const std::atomic<bool>& interrupted_by_user() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    if (!ignores_hangup()) sigaction(SIGHUP, &action, nullptr);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, nullptr);
    return true;
  }();
  (void)installed;
  return interrupted;
}

void end_by_signal(int signal) {
  other_signal = signal;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(signal, &action, nullptr);
}

bool asked_by_signal() { return came != 0 && came == other_signal; }

}  // namespace trireme
