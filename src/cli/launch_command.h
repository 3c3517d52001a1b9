// `trireme launch`: starts the processes of a training, here or on several machines.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace trireme {

struct LaunchOptions {
  int processes = 0;               ///< 0: those of `hosts`
  std::vector<std::string> hosts;  ///< "a:2": host and its processes; empty: this machine
  std::string interface;           ///< empty: the one that leads to rank 0
  int port = 0;                    ///< where rank 0 listens; 0: any that is free
  std::string ssh = "ssh";         ///< command that is given a host and a shell's line to run there
  bool bind = true;
  std::filesystem::path token_file;  ///< empty: the environment's, else one of this launch's own
  std::string print;                 ///< a launcher whose job script is wanted instead; empty: none
  TrainOptions train;                ///< read here too, so that a wrong flag is one error
  std::vector<std::string> words;    ///< of the command line from "train" on
  int restarts = 0;                  ///< of an elastic run: lost ranks that others take the place of
  std::string restart_after;         ///< "30 s": when; empty: at once

  // -- of a launch on another machine, which one here started
  int first_rank = -1;  ///< of `processes`; -1: it is the user's own
  int all_processes = 0;
  std::string address;
  bool token_from_input = false;  ///< the first line of standard input is the ranks' token
  std::string elastic_group;      ///< cli/elastic_group.h; empty: the run is not elastic
  std::string launched_by;        ///< the command that the user gave there, up to "train"
};

/// The verb with its flags; the one that is launched, `train`, is a verb below it.
void add_launch(CLI::App& app, LaunchOptions& options, const std::function<void(CLI::App&, TrainOptions&)>& add_train);

/// What stands after launch and its flags, as it was written.
std::vector<std::string> launched_words(int argc, const char* const* argv);

/// Returns the exit code: not 0 if any process failed, all of which have ended then. Of an elastic run (experiment's
/// `elastic`): if it did not get to its end with those that were left or took the place of lost ones. Errors (user):
/// hosts and numbers that contradict each other, no such interface, a first host that others cannot reach; an elastic
/// run without checkpoints; --restarts of a run that is not elastic.
int run_launch(const LaunchOptions& options);

}  // namespace trireme
