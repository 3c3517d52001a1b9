// The machines of a launch.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct LaunchHost {
  std::string name;
  int processes = 1;
};

/// Parses "a:2", "b". `processes`: of all hosts together if the user gave it, otherwise 0. No hosts: this machine.
/// Errors (user): invalid numbers, or numbers that do not add up.
std::vector<LaunchHost> read_hosts(const std::vector<std::string>& hosts, int processes);

/// Returns the hosts of the first `count` processes; all of them if there are no more.
std::vector<LaunchHost> first_processes(const std::vector<LaunchHost>& hosts, int count);

/// Returns the number of processes of all hosts together.
int processes_of(const std::vector<LaunchHost>& hosts);

/// Returns the name for launchers without ssh: "b" of "ann@b".
std::string without_user(const std::string& host);

/// True if the name denotes this machine; does not use the network.
bool is_this_machine(const std::string& host);

/// Returns the word quoted for a shell.
std::string shell_quoted(const std::string& word);
std::string shell_line(const std::vector<std::string>& words);

}  // namespace trireme
