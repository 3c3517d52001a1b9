// One strategy of a comparison in a process of its own: a crash, a leak or a memory limit in one cannot touch the
// others.
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trireme {

struct ChildEnd {
  bool killed_for_time = false;
  int exit_code = 0;  ///< -1 when ended by a signal
  int signal = 0;
  std::string last_words;  ///< the last line it wrote to standard error
};

/// Runs this program with `arguments`, hands each JSON line it writes to standard output to `on_message`, and waits for
/// its end. It is killed `hard_limit` seconds after its start (0: never), and three seconds after `interrupted` becomes
/// true: time to save weights.
ChildEnd run_child(const std::vector<std::string>& arguments, double hard_limit, const std::atomic<bool>& interrupted,
                   const std::function<void(const nlohmann::json&)>& on_message);

}  // namespace trireme
