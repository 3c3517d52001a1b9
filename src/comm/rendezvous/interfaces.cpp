#include "comm/rendezvous/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kAnyService = "9";  // any port: the datagram socket sends nothing

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

/// Returns the address from which this machine would send to `target`, or "" if there is no route.
std::string own_address_towards(const addrinfo& target) {
  const int fd = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  const bool known = ::connect(fd, target.ai_addr, target.ai_addrlen) == 0 && ::getsockname(fd, address, &length) == 0;
  ::close(fd);
  return known ? text_of(address) : "";
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
      if (!entry->ifa_addr || entry->ifa_addr->sa_family != family || !(entry->ifa_flags & IFF_UP)) continue;
      interfaces.push_back({entry->ifa_name, text_of(entry->ifa_addr)});
    }
  return interfaces;
}

std::string describe(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> names, entries;
  for (const NetworkInterface& one : interfaces)
    if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
  for (const std::string& name : names) {
    std::vector<std::string> addresses;
    for (const NetworkInterface& one : interfaces)
      if (one.name == name) addresses.push_back(one.address);
    entries.push_back(fmt::format("{} ({})", name, join(addresses)));
  }
  return join(entries);
}

void check_interface(const std::string& name, const std::string& where) {
  const std::vector<NetworkInterface> all = network_interfaces();
  if (std::any_of(all.begin(), all.end(), [&](const NetworkInterface& one) { return one.name == name; })) return;
  fail_user(
      {where, name, "this machine has no such interface, or it is down", fmt::format("it has {}", describe(all))});
}

std::string interface_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), kAnyService, &hints, &list); error != 0)
    fail_user(
        {"address of rank 0", host, ::gai_strerror(error), "name a host that this machine knows, or its address"});
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  const std::vector<NetworkInterface> all = network_interfaces();
  for (const addrinfo* target = list; target; target = target->ai_next) {
    const std::string own = own_address_towards(*target);
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const NetworkInterface& one) { return one.address == own; });
    if (found != all.end()) return found->name;
  }
  fail_user({"address of rank 0", host, "no interface of this machine leads there",
             fmt::format("name one with --interface: {}", describe(all))});
}

}  // namespace trireme
