// The machines of a launch.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct LaunchHost {
  std::string name;
  int processes = 1;
};

/// Of "a:2", "b"; `processes`: of all together where the user says so, else 0. No hosts: this machine.
/// Errors (user): numbers that are none, or do not add up.
std::vector<LaunchHost> read_hosts(const std::vector<std::string>& hosts, int processes);

/// Of all together.
int processes_of(const std::vector<LaunchHost>& hosts);

/// The name as launchers without ssh know it: "b" of "ann@b".
std::string without_user(const std::string& host);

/// Whether the name stands for this machine without asking the network.
bool is_this_machine(const std::string& host);

/// A word as a shell takes it literally.
std::string shell_quoted(const std::string& word);
std::string shell_line(const std::vector<std::string>& words);

}  // namespace trireme
