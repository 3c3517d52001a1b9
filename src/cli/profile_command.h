// `trireme profile`: measures this machine with an experiment's model.
#pragma once

#include <filesystem>
#include <string>

#include "cli/options.h"

namespace trireme {

struct ProfileOptions {
  ExperimentOptions experiment;
  std::filesystem::path out;    ///< empty: the experiment's name in the working folder
  std::string budget = "60 s";
};
/// Writes the profile, or adds to it what it does not have, and prints it.
int run_profile(const ProfileOptions& options);

}  // namespace trireme
