#include "experiment/read_emulation.h"

#include <fmt/format.h>

#include <cmath>

#include "base/memory.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Reads the step of a change. `last`: step of the previous change. Equal steps are allowed if `may_equal`.
int64_t read_step(const ConfigTable& change, int64_t last, bool may_equal) {
  const int64_t step = change.require_int("at_step", may_equal ? 0 : 1);
  if (step < last || (step == last && !may_equal))
    change.fail("at_step", fmt::format("the change before it is at step {}", last),
                "list changes in the order of their steps");
  return step;
}

void read_links(const ConfigTable& file, Experiment& e) {
  const ConfigTable link = file.table("cluster").table("link");
  if (link.keys().empty()) return;
  LinkSchedule schedule{read_link_speed(link, {}), {}};
  int64_t last = 0;
  for (const ConfigTable& change : link.tables("change")) {
    last = read_step(change, last, /*may_equal=*/false);
    const LinkSpeed& before = schedule.changes.empty() ? schedule.at_first : schedule.changes.back().speed;
    schedule.changes.push_back({last, read_link_speed(change, before)});
  }
  if (file.has("replicas") && !e.private_replicas)
    file.fail("replicas", "workers that share one copy of the weights send no gradients over [cluster.link]",
              "write replicas = \"private\", or leave it out: links imply it");
  e.private_replicas = true;
  e.links = schedule;
}

void read_workers(const ConfigTable& cluster, Experiment& e) {
  int64_t last = 0;
  for (const ConfigTable& change : cluster.table("worker").tables("change")) {
    last = read_step(change, last, /*may_equal=*/true);
    const int64_t worker = change.require_int("worker", 0);
    if (worker >= kMaxDevices) change.fail("worker", "no run has so many workers", "they are counted from 0");
    const double slower = change.require_double("slower");
    if (!std::isfinite(slower) || slower < 1)
      change.fail("slower", "is the factor by which the worker computes longer: at least 1",
                  "write 3 for a third of the speed, 1 for the usual speed again");
    e.worker_changes.push_back({int(worker), last, slower});
  }
}

void read_memory(const ConfigTable& cluster, Experiment& e) {
  int64_t last = 0;
  for (const ConfigTable& change : cluster.table("memory").tables("change")) {
    last = read_step(change, last, /*may_equal=*/false);
    if (!change.has("limit"))
      change.fail("limit", "is missing", "give the bytes that each worker may use, for example \"300 MiB\"");
    const int64_t limit = change.get_bytes("limit", 0);
    if (limit <= 0)
      change.fail("limit", "no tensor fits into that",
                  "give the bytes that each worker may use, for example \"300 MiB\"");
    e.memory_changes.push_back({last, limit});
  }
}

}  // namespace

void read_emulation(const ConfigTable& file, Experiment& e) {
  read_links(file, e);
  read_workers(file.table("cluster"), e);
  read_memory(file.table("cluster"), e);
}

void check_emulation(const Experiment& e, int workers) {
  const auto check = [&](const char* key, int worker) {
    if (worker >= workers)
      fail_user({e.where(key), fmt::format("worker = {}", worker),
                 workers == 1 ? "there is 1 worker, which has number 0"
                              : fmt::format("{} workers are counted from 0 to {}", workers, workers - 1),
                 "name one of them or raise devices"});
  };
  for (const WorkerChange& change : e.worker_changes) check("cluster.worker.change", change.worker);
  if (!e.replicas.clock) return;
  for (const Failure& failure : e.replicas.clock->failures) check("update.virtual.failure", failure.replica);
}

}  // namespace trireme
