#include "cli/options.h"

#include <csignal>

namespace trireme {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_signal(int) { interrupted = true; }

}  // namespace

void ExperimentOptions::add_common(CLI::App& app) {
  app.add_option("experiment", experiment, "experiment file (TOML)")->required();
  app.add_option("--set", set, "override a key of the experiment: --set batch=256 --set optimizer.learning_rate=0.1")
      ->allow_extra_args(false);
  app.add_option("--data-dir", data_dir, "folder with the data set");
  app.add_option("--seed", seed, "seed of weights, sample order, dropout and augmentation");
}

void ExperimentOptions::add_run(CLI::App& app) {
  app.add_option("--steps", steps, "train this many steps instead of the experiment's length")->check(CLI::PositiveNumber);
  app.add_option("--devices", devices, "numbers of workers, for example 2,4")->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--out", out, "run folder to create (default: runs/<name>-<time>)");
}

ExperimentOverrides ExperimentOptions::overrides() const { return {set, data_dir, seed, steps, strategies, devices}; }

std::vector<std::string> ExperimentOptions::forwarded() const {
  std::vector<std::string> flags{experiment.string()};
  for (const std::string& assignment : set) flags.insert(flags.end(), {"--set", assignment});
  if (data_dir) flags.insert(flags.end(), {"--data-dir", data_dir->string()});
  if (seed) flags.insert(flags.end(), {"--seed", std::to_string(*seed)});
  if (steps) flags.insert(flags.end(), {"--steps", std::to_string(*steps)});
  return flags;
}

const std::atomic<bool>& interrupted_by_user() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    return true;
  }();
  (void)installed;
  return interrupted;
}

}  // namespace trireme
