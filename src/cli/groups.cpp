#include "cli/groups.h"

#include <algorithm>

namespace trireme {
namespace {

struct Group {
  const char* title;
  std::vector<std::string> names;
};

/// Options of one name mean the same in every verb. Options without another title, such as --help, are under the last
/// one.
const std::vector<Group>& groups_of_options() {
  static const std::vector<Group> groups{
      {"Experiment",
       {"--set", "--data-dir", "--seed", "--trust", "--steps", "--phase", "--resume", "--start-from", "--own-data",
        "--precision", "--model", "--sample", "--vocabulary", "--batch-per-worker", "--epoch-samples"}},
      {"Devices and plan",
       {"--devices", "--device", "--plan", "--strategies", "--backend", "--bandwidth", "--memory", "--straight"}},
      {"Prediction", {"--cluster", "--profile", "--times", "--no-predict", "--epochs", "--cost"}},
      {"Search", {"--objective", "--explain", "--micro-batches", "--gap", "--time-limit", "--no-trials"}},
      {"Measurement",
       {"--repeat", "--batches", "--rate", "--micro-batch", "--budget", "--rows", "--fit", "--hold", "--quick",
        "--full", "--dry-run"}},
      {"Processes",
       {"-n", "--hosts", "--interface", "--port", "--ssh", "--no-bind", "--print", "--restarts", "--restart-after",
        "--clients", "--clients-at-least", "--client", "--spawn", "--listen", "--token-file"}},
      {"Output",
       {"--out", "--output", "--format", "--inputs", "--json", "--details", "--messages", "--program", "--worker",
        "--columns"}},
      {"Options", {}},
  };
  return groups;
}

const std::vector<Group>& groups_of_verbs() {
  static const std::vector<Group> groups{
      {"Verbs to train and compare", {"compare", "train", "verify", "study"}},
      {"Verbs to predict and plan", {"simulate", "plan", "profile", "measure-epochs", "calibrate"}},
      {"Verbs to run on many machines", {"launch", "serve", "join"}},
      {"Verbs for files and this machine", {"report", "checkpoints", "export", "data", "doctor", "help"}},
  };
  return groups;
}

std::vector<std::string> titles_of(const std::vector<Group>& groups) {
  std::vector<std::string> titles;
  titles.reserve(groups.size());
  for (const Group& group : groups) titles.emplace_back(group.title);
  return titles;
}

void group_options(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    option->group(groups_of_options().back().title);
    for (const Group& group : groups_of_options())
      if (std::any_of(group.names.begin(), group.names.end(),
                      [&](const std::string& name) { return option->check_name(name); }))
        option->group(group.title);
  }
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) group_options(*verb);
}

}  // namespace

std::vector<std::string> option_groups() { return titles_of(groups_of_options()); }
std::vector<std::string> verb_groups() { return titles_of(groups_of_verbs()); }

void group_options_and_verbs(CLI::App& program) {
  group_options(program);
  for (const Group& group : groups_of_verbs())
    for (const std::string& name : group.names) program.get_subcommand(name)->group(group.title);
}

}  // namespace trireme
