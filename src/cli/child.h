// Runs one strategy of a comparison in its own process, so that a crash, a leak or a memory limit in one strategy does
// not affect the others.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class ForkServer;

struct ChildEnd {
  bool killed_for_time = false;
  int exit_code = 0;  ///< -1 if a signal ended it
  int signal = 0;
  std::string last_words;  ///< the last line that it wrote to standard error
};

/// Runs this program with `arguments`, passes each JSON line on its standard output to `on_message`, and waits for its
/// end. Kills it `hard_limit` seconds after its start (0: never), and three seconds after `interrupted` becomes true,
/// which leaves time to save weights. `forks`: a server that starts it. If it is null or has ended, the program is
/// started from its file. `on_warning`: gets the text of each warning that it logs; null: they are dropped.
ChildEnd run_child(const std::vector<std::string>& arguments, double hard_limit, const std::atomic<bool>& interrupted,
                   const std::function<void(const nlohmann::json&)>& on_message, ForkServer* forks = nullptr,
                   const std::function<void(std::string_view)>& on_warning = nullptr);

}  // namespace trireme
