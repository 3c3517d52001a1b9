// Runs work on several threads, one per worker.
#pragma once

#include <functional>
#include <string>

namespace trireme {

/// Runs work(i) for each i below `count`, each on its own thread with one libtorch operator thread, and waits for all.
/// `abort` is called at once for each failure ("worker 3 failed: ..."), so that it can stop the other threads. The
/// first exception is rethrown here; a StoppedError only if there is no other exception. `one` is the name of a thread
/// in messages: "worker".
/// Errors (run): not all threads could be started.
void run_threads(int count, const std::string& one, const std::function<void(int)>& work,
                 const std::function<void(const std::string& reason)>& abort);

}  // namespace trireme
