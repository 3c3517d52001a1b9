// The program `trireme` with kinds of your own, and the version of the library.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// All of the program: verbs, help, exit codes. For a main function that registers schedules, models, update policies,
/// data sets or backends of its own, so that all verbs know them:
///
///     int main(int argc, char** argv) { return trireme::run_program(argc, argv); }
///
/// Call it once, from main. It may end the process itself, with the same exit codes: 0 done, 1 a run failed, 2 bad
/// input.
int run_program(int argc, char** argv);

/// A version of the library.
struct Version {
  std::string number;  ///< "0.1.0"
  /// Of the sources, shortened. "-dirty" follows if files had changed. Empty if the sources were not in a git checkout.
  std::string commit;
  std::string libtorch;               ///< version of libtorch
  std::vector<std::string> backends;  ///< that this build has
};

/// Returns the version of the library that is linked. Thread-safe.
Version version();

}  // namespace trireme
