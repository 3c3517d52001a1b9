// `trireme launch`: starts the processes of a training, or of each row of a comparison, here or on several machines.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch_options.h"

namespace trireme {

/// Adds the verb with its flags. The launched verbs, `train` and `compare`, are subcommands of it.
void add_launch(CLI::App& app, LaunchOptions& options, const std::function<void(CLI::App&, TrainOptions&)>& add_train,
                const std::function<void(CLI::App&, CompareOptions&)>& add_compare);

/// Returns the words after launch and its flags, as they were written.
std::vector<std::string> launched_words(int argc, const char* const* argv);

/// Returns the exit code, for `compare` that of run_compare: not 0 if any process failed; all processes have then
/// ended. Of an elastic run (experiment's `elastic`): not 0 if the run did not finish with the remaining ranks or their
/// replacements. Errors (user): hosts and numbers that contradict each other; an unknown interface; a first host that
/// others cannot reach; an elastic run without checkpoints; --restarts of a run that is not elastic.
int run_launch(const LaunchOptions& options);

}  // namespace trireme
