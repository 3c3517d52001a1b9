#include "cli/elastic_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/text.h"
#include "cli/exit_codes.h"
#include "experiment/make_plan.h"
#include "plan/fewer_devices.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

std::string processes_text(int count) { return counted(count, "process", "processes"); }

LaunchHost& find_host(std::vector<LaunchHost>& hosts, const std::string& name) {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const LaunchHost& host) { return host.name == name; });
  check_internal(found != hosts.end(), "a host that lost ranks is one of the run's hosts");
  return *found;
}

/// Returns the plan for at most this many processes; nullopt: there is none.
std::optional<FewerDevices> plan_for(const std::string& plan, int all, int processes) {
  if (!is_plan_file(plan)) return on_fewer_devices(plan, processes);
  if (processes < all) return std::nullopt;
  return FewerDevices{plan, all};
}

}  // namespace

ElasticLaunch::ElasticLaunch(std::vector<LaunchHost> hosts, std::string plan, std::filesystem::path folder,
                             const ElasticOptions& options)
    : plan_(std::move(plan)),
      options_(options),
      wanted_(std::move(hosts)),
      left_(wanted_),
      used_(processes_of(wanted_)),
      restarts_left_(options.restarts),
      elastic_group_{.folder = std::move(folder), .plan = plan_} {}

int ElasticLaunch::processes() const {
  const int left = processes_of(left_);
  return at_most_ > 0 ? std::min(left, at_most_) : left;
}

std::vector<LaunchHost> ElasticLaunch::hosts() const { return first_processes(left_, used_); }

bool ElasticLaunch::goes_on(const GroupEnd& end) {
  notice_.clear();
  if (joining_after_) joining_after_ = std::max(0.0, *joining_after_ - end.trained_seconds);
  if (end.exit_code == 0) return false;
  if (!end.lost.empty()) {
    std::vector<std::string> reasons;
    for (const LostRanks& lost : end.lost) reasons.push_back(fmt::format("{} {}", lost.name, lost.how));
    lose(end.lost);
    if (joining_after_ == 0) take_joining();
    return begin_next(join(reasons, "; "));
  }
  if (end.makes_room) {
    const int more = processes_of(joining_);
    take_joining();
    return begin_next(
        fmt::format("{} {} the place of lost processes", processes_text(more), more == 1 ? "takes" : "take"));
  }
  // No plan exists for this many processes; rank 0 has reported why.
  if (end.exit_code != kUserError || elastic_group_.number == 0 || used_ < 2) return false;
  at_most_ = used_ - 1;
  return begin_next(elastic_group_.reason);
}

void ElasticLaunch::lose(const std::vector<LostRanks>& lost) {
  at_most_ = 0;
  std::vector<LaunchHost> group = hosts();
  for (const LostRanks& entry : lost) {
    LaunchHost& host = find_host(left_, entry.host);
    const int there = find_host(group, entry.host).processes,
              count = entry.count == 0 ? there : std::min(entry.count, there);
    const int replaced = std::min(count, restarts_left_);
    restarts_left_ -= replaced;
    host.processes -= count;
    if (options_.restart_after <= 0) {
      host.processes += replaced;
    } else if (replaced > 0) {
      joining_.push_back({entry.host, replaced});
      if (!joining_after_) joining_after_ = options_.restart_after;
    }
  }
}

void ElasticLaunch::take_joining() {
  for (const LaunchHost& more : std::exchange(joining_, {})) find_host(left_, more.name).processes += more.processes;
  joining_after_.reset();
}

bool ElasticLaunch::begin_next(std::string reason) {
  const int count = processes();
  const std::optional<FewerDevices> plan = count > 0 ? plan_for(plan_, processes_of(wanted_), count) : std::nullopt;
  if (!plan) {
    notice_ = fmt::format("{}; no rank is left", reason);
    if (count > 0)
      notice_ = fmt::format(
          "{}; {} cannot continue under {}, which needs more: launch with --restarts, or resume under another plan "
          "with "
          "--resume {}",
          reason, processes_text(count), plan_, elastic_group_.folder.string());
    return false;
  }
  used_ = plan->devices;
  ++elastic_group_.number;
  elastic_group_.plan = plan->strategy;
  elastic_group_.reason = reason;
  elastic_group_.ended_at = system_seconds();
  elastic_group_.next_processes =
      joining_.empty() ? 0 : plan_for(plan_, processes_of(wanted_), count + processes_of(joining_)).value().devices;
  notice_ = fmt::format("{}: {} continue under {}", reason, processes_text(used_), elastic_group_.plan);
  if (used_ == 1) notice_ = fmt::format("{}: one process continues under {}", reason, elastic_group_.plan);
  if (count > used_)
    notice_ += fmt::format(" ({} of the remaining processes {} nothing to do)", count - used_,
                           count - used_ == 1 ? "has" : "have");
  return true;
}

}  // namespace trireme
