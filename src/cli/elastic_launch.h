// Decides how an elastic launch continues when it loses ranks: with how many processes, on which hosts, under which
// plan, and when other processes replace the lost ones.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/elastic_group.h"
#include "cli/launch_hosts.h"
#include "cli/rank_group.h"

namespace trireme {

struct ElasticOptions {
  int restarts = 0;          ///< number of lost ranks that are replaced
  double restart_after = 0;  ///< seconds for which the other ranks train without them before
};

/// The groups of a launch, one after another.
class ElasticLaunch {
 public:
  /// `plan`: in the form of --plan. `folder`: of the run; does not exist yet.
  ElasticLaunch(std::vector<LaunchHost> hosts, std::string plan, std::filesystem::path folder,
                const ElasticOptions& options);

  /// The hosts of the next group, each with at least one process; together as many processes as the plan uses.
  std::vector<LaunchHost> hosts() const;
  const ElasticGroup& elastic_group() const { return elastic_group_; }
  /// Seconds of training, from the group's first step on, after which processes that replace lost ones are due. The
  /// group must then make room between two steps. nullopt: none are due.
  const std::optional<double>& seconds_until_joining() const { return joining_after_; }

  /// Call it after the group's end. Returns true if another group takes over; notice() then states it.
  bool goes_on(const GroupEnd& end);
  /// One line: how the run continues, or why it cannot; empty if GroupEnd already states it.
  const std::string& notice() const { return notice_; }

 private:
  void lose(const std::vector<LostRanks>& lost);
  void take_joining();
  bool begin_next(std::string reason);
  int processes() const;

  const std::string plan_;
  const ElasticOptions options_;
  const std::vector<LaunchHost> wanted_;
  std::vector<LaunchHost> left_;  ///< with processes that can work; the plan may use fewer
  int used_ = 0;                  ///< number of processes of the group
  int restarts_left_ = 0;
  std::vector<LaunchHost> joining_;      ///< with processes that will replace lost ones
  std::optional<double> joining_after_;  ///< seconds of training after which they are due; nullopt: none are
  int at_most_ = 0;                      ///< most processes, after a plan for more was refused; 0: no such limit
  ElasticGroup elastic_group_;
  std::string notice_;
};

}  // namespace trireme
