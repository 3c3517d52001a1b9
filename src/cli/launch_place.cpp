#include "cli/launch_place.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "cli/launch_options.h"
#include "comm/rendezvous/interfaces.h"
#include "comm/rendezvous/token.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kFirstPort = 20000, kLastPort = 31999;  // below the ports that the system assigns to clients
constexpr int kPortAttempts = 100;

/// Binds this port for a moment; 0: any port. Returns the port; 0: it is not available.
int bound_for_a_moment(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (fd >= 0)
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes,
                 sizeof yes);  // connections of an earlier run that linger must not block the port
  const bool bound = fd >= 0 && ::bind(fd, any, length) == 0 && ::getsockname(fd, any, &length) == 0;
  if (fd >= 0) ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

bool is_free(int port) { return bound_for_a_moment(port) != 0; }

int any_port() {
  std::random_device random;
  return std::uniform_int_distribution(kFirstPort, kLastPort)(random);
}

/// Returns a port of this machine that was free a moment ago.
int free_port() {
  for (int attempt = 0; attempt < kPortAttempts; ++attempt)
    if (const int port = any_port(); is_free(port)) return port;
  fail_run({"launch", "found no free port",
            fmt::format("{} ports of {} to {} were tried", kPortAttempts, kFirstPort, kLastPort),
            "name one with --port"});
}

std::string address_of_interface(const std::string& name) {
  check_interface(name, "--interface");
  const std::vector<NetworkInterface> all = network_interfaces();
  return std::find_if(all.begin(), all.end(), [&](const NetworkInterface& one) { return one.name == name; })->address;
}

}  // namespace

void check_port(const LaunchOptions& options, const LaunchHost& first) {
  if (options.port != 0 && is_this_machine(first.name) && !is_free(options.port))
    fail_user({"--port", std::to_string(options.port), "something listens there already",
               "choose another one, or leave it out to use any free port"});
}

int port_for(const LaunchOptions& options, const LaunchHost& first) {
  check_port(options, first);
  if (options.port != 0) return options.port;
  return is_this_machine(first.name) ? free_port() : any_port();
}

std::string address_for(const LaunchOptions& options, const std::vector<LaunchHost>& hosts) {
  const bool here = is_this_machine(hosts.front().name);
  if (here && !options.interface.empty()) return address_of_interface(options.interface);
  if (hosts.size() == 1 && here) return kLoopback;
  const std::string& first = hosts.front().name;
  if (here && interface_towards(first) == "lo")
    fail_user({"--hosts", first, "other hosts cannot reach this machine by that name",
               "choose the network with --interface, or write its address first"});
  return without_user(first);
}

std::string token_of(const LaunchOptions& options) {
  std::string token = read_token(options.token_file);
  if (token.empty()) token = random_token();
  if (token.size() > kLongestToken)
    fail_user({"the token", fmt::format("{} characters", token.size()),
               fmt::format("at most {} are allowed", kLongestToken), "make one: openssl rand -hex 16"});
  return token;
}

}  // namespace trireme
