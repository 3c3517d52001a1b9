// The network interfaces of this machine, by name.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct NetworkInterface {
  std::string name;     ///< "eth0"
  std::string address;  ///< IPv4 or IPv6, as text
};

/// Returns the interfaces that are up and have an address: one entry per address, IPv4 first.
std::vector<NetworkInterface> network_interfaces();

/// "lo (127.0.0.1), eth0 (10.0.0.5, fe80::1)"
std::string describe(const std::vector<NetworkInterface>& interfaces);

/// Throws a user error if this machine has no interface of that name that is up. The message lists those that it has.
/// `where` is the flag or variable that named it.
void check_interface(const std::string& name, const std::string& where);

/// Returns the interface through which this machine reaches `host` (a name or an address): "lo" for its own loopback
/// addresses. Throws a user error if the host is unknown or there is no route to it.
std::string interface_towards(const std::string& host);

}  // namespace trireme
