// The network interfaces of this machine, by the names that people know.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< IPv4 or IPv6, as text
};

/// Those that are up and have an address; one entry per address, IPv4 first.
std::vector<NetworkInterface> network_interfaces();

/// "lo (127.0.0.1), eth0 (10.0.0.5, fe80::1)"
std::string describe(const std::vector<NetworkInterface>& interfaces);

/// Errors (user): this machine has no interface of that name that is up; the message lists those that it has. `where`:
/// flag or variable.
void check_interface(const std::string& name, const std::string& where);

/// The interface through which this machine reaches `host` (a name or an address): "lo" for its own loopback addresses.
/// Errors (user): a host that nobody knows, or no route to it.
std::string interface_towards(const std::string& host);

}  // namespace trireme
