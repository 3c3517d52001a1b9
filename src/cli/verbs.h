// All verbs of the command line: their flags, and what runs them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trireme {

struct ProgramVerb {
  std::string name;
  std::function<int()> run;  ///< returns the exit code; throws what run_... of cli/commands.h throws
  bool alone = false;        ///< one process runs it; a launcher that started several is an error
};

/// Adds all verbs with their flags to `app`. `argc`, `argv`: the command line, of which launch keeps the words. The
/// result's functions use what `app` has parsed by the time they are called; it must outlive them.
std::vector<ProgramVerb> add_verbs(CLI::App& app, int argc, char** argv);

}  // namespace trireme
