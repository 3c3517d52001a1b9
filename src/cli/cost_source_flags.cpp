#include "cli/cost_source_flags.h"

namespace trireme {

void add_cost_source(CLI::App& verb, CostSourceOptions& options, const std::string& purpose) {
  verb.add_option("--cluster", options.cluster, purpose);
  add_profile_flag(verb, options);
}

void add_profile_flag(CLI::App& verb, CostSourceOptions& options) {
  verb.add_option("--profile", options.profile,
                  "profile of this machine (trireme profile); missing measurements are made and added");
}

void add_times_flag(CLI::App& verb, CostSourceOptions& options) {
  verb.add_option("--times", options.times,
                  "own seconds of layers, blocks or stages in a CSV file, in place of predicted ones");
}

}  // namespace trireme
