// A thread for each of several workers.
#pragma once

#include <functional>
#include <string>

namespace trireme {

/// Runs work(i) on a thread of its own for each i below `count`, with one thread for its operators, and waits for all.
/// `abort` hears of each failure at once ("worker 3 failed: ..."), so that the others can end too; the first exception
/// is rethrown here, not a StoppedError where there is another. `one`: what a thread is called in messages, "worker".
/// Errors (run): not all threads could be started.
void run_threads(int count, const std::string& one, const std::function<void(int)>& work,
                 const std::function<void(const std::string& reason)>& abort);

}  // namespace trireme
