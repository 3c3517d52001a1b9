// Where the verbs that predict have their costs from: a cluster file, a profile of this machine, or measurements made
// on the spot.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "forecast/best_plan.h"
#include "plan/cluster_file.h"
#include "profile/profile.h"

namespace trireme {

struct CostSourceOptions {
  std::filesystem::path cluster;  ///< *.cluster.toml; empty: this machine
  std::filesystem::path
      profile;  ///< of this machine; empty: what is asked for is measured; else it is measured and added
};

/// Sources by devices, made when first asked for. The experiment, the model and the data outlive it.
class Predictions {
 public:
  /// Errors (user): a cluster and a profile at once, files that are none or of another machine.
  Predictions(const RunSpec& experiment, const Model& model, const TaskData& data, const CostSourceOptions& options);
  /// For the devices of a described cluster.
  Predictions(const RunSpec& experiment, const Model& model, const TaskData& data, Cluster cluster);

  /// Of the first devices. Errors (user): more than the cluster has.
  const CostSource& source(int devices) { return source(device_numbers(0, devices)); }
  /// By number, in this order. Errors (user): the cluster does not have them.
  const CostSource& source(const std::vector<int>& devices);
  /// Of the plan's; workers of this machine are alike. Errors (user): the cluster does not have them.
  const CostSource& source(const Plan& plan);
  /// As source(plan), for whoever runs the plan: of this machine all that the plan asks for is measured by now, what it
  /// may ask for besides lies between those sizes or is extrapolated. With a model of its own, and without loading.
  CostSource settled_source(const Plan& plan);
  /// Of a cluster file's devices, in any order that may matter (plan/device_orders.h); of this machine, the first ones.
  DeviceChoice choice(int devices);
  /// The plan of a strategy's name, a planner's included, or of a file, on so many devices.
  Plan plan(const std::string& name, int devices);
  /// Calls `ask`, which asks for all that is wanted; where that had layers measured, they are measured once more
  /// (profile/measure_again.h), and it is called again. What it makes of the answers must not add up.
  void settle(const std::function<void()>& ask);
  bool is_described() const { return cluster_.has_value(); }  ///< not this machine
  /// "this machine, as measured", "8xV100 (dgx1-v100.cluster.toml), by datasheets: an approximation".
  std::string in_words() const;
  /// Currency and origin of the cluster's prices, or of the experiment's for this machine, where there are any.
  void describe_prices(ExperimentResult& result) const;
  /// Writes what has been measured to the profile's file, where one was named.
  void keep();
  /// Compares the rows that ran with what was predicted of them; where the profile is kept, later predictions of this
  /// model count the result. A line that says so; "" where no row tells anything: those that share cores with
  /// themselves do not.
  std::string refit(const std::vector<RunResult>& rows);

 private:
  const RunSpec& experiment_;
  const Model& model_;
  const TaskData& data_;
  const CostSourceOptions options_;
  std::optional<Cluster> cluster_;
  Profile profile_;
  double loading_ = 0;
  std::map<std::vector<int>, CostSource> sources_;
};

/// Writes the price that the experiment gives for this machine into `result`, where it gives one.
void describe_own_price(const Experiment& experiment, ExperimentResult& result);

}  // namespace trireme
