// What becomes of an elastic launch when it loses ranks: how many processes go on, where, under which plan, and when
// others take the place of those lost.
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
  int restarts = 0;          ///< lost ranks that others take the place of
  double restart_after = 0;  ///< seconds that the others train without them before
};

/// Group by group.
class ElasticLaunch {
 public:
  /// `plan`: as --plan takes it. `folder`: of the run, not there yet.
  ElasticLaunch(std::vector<LaunchHost> hosts, std::string plan, std::filesystem::path folder,
                const ElasticOptions& options);

  /// Of the group that is to be started: hosts with at least one process, as many processes as the plan uses.
  std::vector<LaunchHost> hosts() const;
  const ElasticGroup& elastic_group() const { return elastic_group_; }
  /// Of training, from the group's first step on, until processes that take the place of lost ones are due: it is to
  /// make room between two steps then. nullopt: none are.
  const std::optional<double>& seconds_until_joining() const { return joining_after_; }

  /// After the group's end: whether another one takes over, which is said in notice().
  bool goes_on(const GroupEnd& end);
  /// One line: why and how the run goes on, or why it does not though ranks were lost; "" where GroupEnd says all.
  const std::string& notice() const { return notice_; }

 private:
  void lose(const std::vector<LostRanks>& lost);
  void take_joining();
  bool begin_next(std::string reason);
  int processes() const;

  const std::string plan_;
  const ElasticOptions options_;
  const std::vector<LaunchHost> wanted_;
  std::vector<LaunchHost> left_;  ///< with processes that can work, of which the plan may use fewer
  int used_ = 0;                  ///< processes of the group
  int restarts_left_ = 0;
  std::vector<LaunchHost> joining_;      ///< with processes that will take the place of lost ones
  std::optional<double> joining_after_;  ///< seconds of training that they are due after; nullopt: nobody is
  int at_most_ = 0;                      ///< processes, after a plan for more was refused; 0: no such limit
  ElasticGroup elastic_group_;
  std::string notice_;
};

}  // namespace trireme
