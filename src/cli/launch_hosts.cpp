#include "cli/launch_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kHere = "localhost";

LaunchHost read_host(const std::string& text) {
  const size_t colon = text.rfind(':');
  LaunchHost host{text.substr(0, colon), 1};
  const auto refuse = [&](const char* why) {
    fail_user({"--hosts", fmt::format("\"{}\"", text), why, "write a:2,b:2 for two processes on each of two hosts"});
  };
  // ssh would read a name with a leading dash as a flag.
  if (host.name.empty() || host.name.starts_with('-')) refuse("names no host");
  if (colon == text.npos) return host;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, host.processes);
  if (error == std::errc::result_out_of_range || host.processes > kMaxDevices)
    refuse("has more processes than can work together");
  if (error != std::errc() || stop != end || host.processes < 1) refuse("is not a host with a number of processes");
  return host;
}

}  // namespace

std::vector<LaunchHost> read_hosts(const std::vector<std::string>& texts, int processes) {
  std::vector<LaunchHost> hosts;
  int64_t sum = 0;
  for (const std::string& text : texts) {
    hosts.push_back(read_host(text));
    sum += hosts.back().processes;
  }
  if (hosts.empty()) {
    if (processes == 0)
      fail_user({"trireme launch", "does not know how many processes to start", "-n or --hosts is required",
                 "add -n 4, or --hosts a:2,b:2"});
    return {{kHere, processes}};
  }
  if (processes != 0 && processes != sum)
    fail_user({"-n", std::to_string(processes), fmt::format("--hosts has {}", sum),
               "leave -n out, or change the hosts' numbers"});
  if (sum > kMaxDevices)
    fail_user(
        {"--hosts", join(texts, ","), fmt::format("at most {} processes can work together", kMaxDevices), "use fewer"});
  const bool all_here =
      std::all_of(hosts.begin(), hosts.end(), [](const LaunchHost& host) { return is_this_machine(host.name); });
  if (all_here) return {{kHere, int(sum)}};
  return hosts;
}

std::vector<LaunchHost> first_processes(const std::vector<LaunchHost>& hosts, int count) {
  std::vector<LaunchHost> first;
  for (LaunchHost host : hosts) {
    host.processes = std::min(host.processes, count);
    count -= host.processes;
    if (host.processes > 0) first.push_back(host);
  }
  return first;
}

int processes_of(const std::vector<LaunchHost>& hosts) {
  int sum = 0;
  for (const LaunchHost& host : hosts) sum += host.processes;
  return sum;
}

std::string without_user(const std::string& host) {
  const size_t at = host.find('@');
  return at == host.npos ? host : host.substr(at + 1);
}

bool is_this_machine(const std::string& host) { return host == kHere || host == host_name(); }

std::string shell_quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_quoted(word));
  return join(quoted, " ");
}

}  // namespace trireme
