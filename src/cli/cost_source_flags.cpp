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

}  // namespace trireme
