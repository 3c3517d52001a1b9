// Where the ranks of a launch meet, and the token by which they know each other.
#pragma once

#include <string>
#include <vector>

#include "cli/launch_hosts.h"

namespace trireme {

struct LaunchOptions;

inline constexpr size_t kLongestToken = 1024;  ///< characters

/// Returns the address of rank 0 as all ranks reach it. Errors (user): an unknown interface; a first host that the
/// others cannot reach.
std::string address_for(const LaunchOptions& options, const std::vector<LaunchHost>& hosts);

/// Returns the port on which rank 0 listens on `first`. Errors (user): that of --port is in use.
int port_for(const LaunchOptions& options, const LaunchHost& first);
void check_port(const LaunchOptions& options, const LaunchHost& first);  ///< its errors

/// Returns the user's token, or a new one. Errors (user): a file that cannot be read, a token that is too short or
/// long.
std::string token_of(const LaunchOptions& options);

}  // namespace trireme
