// The options of `trireme launch`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace trireme {

struct LaunchOptions {
  int processes = 0;               ///< 0: those of `hosts`
  std::vector<std::string> hosts;  ///< "a:2": a host and its number of processes; empty: this machine
  std::string interface;           ///< empty: the interface that leads to rank 0
  int port = 0;                    ///< port on which rank 0 listens; 0: any free one
  std::string ssh = "ssh";         ///< command that gets a host and a shell command line to run on it
  bool bind = true;
  std::filesystem::path token_file;  ///< empty: the environment's token, otherwise a new one for this launch
  std::string print;                 ///< a launcher for which a job script is printed; empty: none
  TrainOptions train;                ///< parsed here too, so that a wrong flag is one error
  CompareOptions compare;            ///< of `trireme launch compare`, which starts processes for each of its rows
  std::vector<std::string> words;    ///< of the command line from the launched verb on
  int restarts = 0;                  ///< elastic run: number of lost ranks that are replaced
  std::string restart_after;         ///< "30 s": time before they are replaced; empty: at once

  // -- of an agent: a launch on another machine, started by the user's launch
  int first_rank = -1;  ///< first of its `processes` ranks; -1: this is the user's own launch
  int all_processes = 0;
  std::string address;
  bool token_from_input = false;  ///< the first line of standard input is the ranks' token
  std::string elastic_group;      ///< cli/elastic_group.h; empty: the run is not elastic
  std::string launched_by;        ///< the command that the user gave, up to "train"
};

}  // namespace trireme
