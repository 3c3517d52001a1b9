#include "base/cores.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <climits>
#include <memory>

#include "trireme/error.h"

namespace trireme {
namespace {

struct FreeTopology {
  void operator()(hwloc_topology* topology) const { ::hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { ::hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

/// Loads the topology of the cores that this process may use. Null if hwloc cannot read the machine.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (::hwloc_topology_load(raw) != 0) return nullptr;
  const Bitmap own(::hwloc_bitmap_alloc());
  for (const int core : usable_cores()) ::hwloc_bitmap_set(own.get(), unsigned(core));
  // cores that the process may not use must not be part of a share
  return ::hwloc_topology_restrict(raw, own.get(), 0) == 0 ? std::move(topology) : nullptr;
}

std::vector<int> list_of(hwloc_const_bitmap_t bitmap) {
  std::vector<int> cores;
  for (int core = ::hwloc_bitmap_first(bitmap); core >= 0; core = ::hwloc_bitmap_next(bitmap, core))
    cores.push_back(core);
  return cores;
}

}  // namespace

std::vector<int> usable_cores() {
  // more than 1024 cores need a larger set than cpu_set_t
  for (int most = 1024; most <= 65536; most *= 2) {
    cpu_set_t* set = CPU_ALLOC(size_t(most));
    const size_t size = CPU_ALLOC_SIZE(size_t(most));
    std::vector<int> cores;
    if (::sched_getaffinity(0, size, set) == 0)
      for (int core = 0; core < most; ++core)
        if (CPU_ISSET_S(size_t(core), size, set)) cores.push_back(core);
    CPU_FREE(set);
    if (!cores.empty()) return cores;
  }
  return {0};
}

std::vector<std::vector<int>> core_shares(int parts) {
  check_internal(parts > 0, "cores are divided among some processes");
  std::vector<std::vector<int>> shares;
  if (const Topology topology = load_topology()) {
    std::vector<hwloc_cpuset_t> sets(static_cast<size_t>(parts), nullptr);
    hwloc_obj_t root = ::hwloc_get_root_obj(topology.get());
    ::hwloc_distrib(topology.get(), &root, 1, sets.data(), unsigned(parts), INT_MAX, 0);
    for (const hwloc_cpuset_t set : sets) {
      if (!set) continue;
      shares.push_back(list_of(set));
      ::hwloc_bitmap_free(set);
    }
  }
  if (int(shares.size()) == parts) return shares;
  return std::vector<std::vector<int>>(size_t(parts), usable_cores());
}

std::string describe_cores(const std::vector<int>& cores) {
  std::string text;
  for (size_t first = 0, last = 0; first < cores.size(); first = last + 1) {
    for (last = first; last + 1 < cores.size() && cores[last + 1] == cores[last] + 1;) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[first]);
    if (last > first) text += fmt::format("-{}", cores[last]);
  }
  return text;
}

bool bind_to_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    if (core < CPU_SETSIZE) CPU_SET(size_t(core), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace trireme
