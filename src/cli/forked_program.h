// Runs this program again in a fork of this process, so that it does not load its libraries again, which takes most of
// a second of processor time.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme {

/// Runs the program with the arguments of its main, and returns its exit code.
using RunProgram = std::function<int(int argc, char** argv)>;

/// Returns true if a fork of this process can run the program: no other thread exists, which may hold a lock.
bool has_one_thread();

/// Writes what this process has buffered for standard output and standard error. Call it before a fork: otherwise the
/// child writes it too.
void flush_output();

/// Replaces the environment by `lines` of NAME=value. The process has one thread.
void set_environment(const std::vector<std::string>& lines);

/// For the child of a fork. Leaves of this process what exec leaves: closes the descriptors that are close-on-exec, and
/// gives signals with a handler their default action. Sets the environment.
void become_new_process(const std::vector<std::string>& environment);

/// Runs the program with these words, the first one its name, and ends the process with its exit code.
/// An exception of it ends the process, because the stack below belongs to the parent.
[[noreturn]] void run_and_exit(std::vector<std::string> words, const RunProgram& run) noexcept;

/// True if SIGHUP is ignored, as nohup makes it: then it stays so, and a closed terminal ends nothing.
bool ignores_hangup();

}  // namespace trireme
