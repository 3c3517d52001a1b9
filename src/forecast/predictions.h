// The cost sources of the verbs that predict: a cluster file, a profile of this machine, or measurements made when
// needed.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/devices/device.h"
#include "forecast/best_plan.h"
#include "forecast/final_trials.h"
#include "forecast/own_times_file.h"
#include "forecast/trial_steps.h"
#include "plan/cluster_file.h"
#include "profile/profile.h"

namespace trireme {

class ProfiledCosts;

struct CostSourceOptions {
  std::filesystem::path cluster;  ///< *.cluster.toml; empty: this machine
  /// The file of this machine's profile. Measurements that it lacks are made and added. Empty: measurements are made
  /// when needed.
  std::filesystem::path profile;
  std::filesystem::path times;  ///< own times of layers or stages (own_times_file.h); empty: none
};

/// Cost sources by devices, created at first use. The experiment, the model and the data must outlive this object.
/// Measurements of this machine are made on the experiment's devices: cores, or GPUs, on which this process's workers
/// are placed as long as this object exists.
class Predictions {
 public:
  /// Errors (user): a cluster and a profile at once; invalid files; a profile of another machine; own times of layers
  /// that the model does not have; without a cluster, those of check_device().
  Predictions(const RunSpec& experiment, const Model& model, const TaskData& data, const CostSourceOptions& options);
  /// For the devices of a described cluster.
  Predictions(const RunSpec& experiment, const Model& model, const TaskData& data, Cluster cluster);

  /// Returns the source of the first devices. Errors (user): more devices than the cluster has.
  const CostSource& source(int devices) { return source(device_numbers(0, devices)); }
  /// Returns the source of the devices with these numbers, in this order. Own times of layers are part of it, those of
  /// stages are not. Errors (user): the cluster does not have them.
  const CostSource& source(const std::vector<int>& devices);
  /// Returns the source of the plan's devices, with all own times. On this machine all workers are equal. Errors
  /// (user): the cluster does not have them; own times are of stages that the plan does not have.
  const CostSource& source(const Plan& plan);
  /// Like source(plan), for running the plan. On this machine everything that the plan needs has been measured when it
  /// returns; other sizes are interpolated or extrapolated. It contains its own copy of the model, and no loading time.
  CostSource settled_source(const Plan& plan);
  /// Returns the choice of a cluster file's devices, in every order that may matter (plan/device_orders.h); on this
  /// machine the first devices. Errors (user): own times are of stages, which a planner chooses itself.
  DeviceChoice choice(int devices);
  /// Returns the plan of a strategy's name (also a planner's) or of a file, on this number of devices; where the
  /// experiment's batch is per device, for the batch of so many, also if the plan has fewer. After
  /// use_final_trials(), trial steps choose the plan of "exact", among what the last search on so many devices found.
  Plan plan(const std::string& name, int devices);
  /// Returns a line about the last plan that plan() found; may be empty. A second call returns "".
  std::string take_note() { return std::exchange(note_, {}); }
  /// Calls `ask`, which requests all costs that are needed. If layers were measured for it, they are measured again
  /// (profile/measure_again.h), and `ask` is called once more. So `ask` must not accumulate results.
  void settle(const std::function<void()>& ask);
  /// True if the machines are those of a cluster file, not this machine.
  bool is_described() const { return cluster_.has_value(); }
  /// Returns "this machine, as measured" or "8xV100 (dgx1-v100.cluster.toml), by datasheets: an approximation".
  std::string in_words() const;
  /// Sets the currency and origin of the cluster's prices, or of the experiment's for this machine, if there are any.
  void describe_prices(ExperimentResult& result) const;
  /// Writes the measurements to the profile's file, if one was named.
  void keep();
  /// Measures trial steps on this machine. From now on predictions use the factors that follow from them, and keep()
  /// stores these. `devices`: the numbers of workers of later predictions. Returns a line with the factors; "" for
  /// described machines and with own times. References to sources become invalid.
  std::string try_steps(const std::vector<int>& devices, const MeasureStep& measure_step);
  /// From now on trial steps choose among finalists (FinalTrials). Their batch must be that of the plans that are asked
  /// for: where it is per device, call it for each number of devices. Returns false, and changes nothing, for described
  /// machines, with own times, and if the training samples are not on this machine or are fewer than a batch.
  bool use_final_trials(MeasureStep measure_step);
  /// Null before use_final_trials().
  FinalTrials* final_trials() { return final_trials_ ? &*final_trials_ : nullptr; }
  /// Returns the speed of the cores at which the predictions hold, for SimulatedStep::core_seconds; nullopt: not known,
  /// or not of this machine.
  std::optional<double> core_seconds() const;
  /// The same for the memory: SimulatedStep::memory_speed.
  std::optional<double> memory_speed() const;
  /// Returns a line that compares the measured rows with their predictions. Rows with more workers than cores do not
  /// count; "" if no row counts.
  std::string compared_with(const std::vector<RunResult>& rows) const;

 private:
  /// A speed from the profile; nullopt: not known (0), or predictions are not of this machine.
  std::optional<double> of_this_machine(double speed) const;
  /// The measured layers that all sources share; null before the first source, and for described machines.
  const ProfiledCosts* measured_layers() const;
  /// Returns the source without own times.
  const CostSource& predicted_source(const std::vector<int>& devices);

  const RunSpec& experiment_;
  const Model& model_;
  const TaskData& data_;
  const CostSourceOptions options_;
  std::optional<Cluster> cluster_;
  std::unique_ptr<PlacedDevices> placed_;  // null: the workers compute on cores
  Profile profile_;
  double loading_ = 0;
  std::map<std::vector<int>, CostSource> sources_;  // without own times
  std::optional<OwnTimes> times_;
  std::map<std::vector<int>, CostSource> timed_sources_;
  std::list<std::pair<Plan, CostSource>> timed_plans_;
  std::map<int, BestPlan> searched_;  // for "exact", by the number of devices
  std::optional<FinalTrials> final_trials_;
  std::string note_;
};

/// Sets the experiment's price of this machine and its origin; does nothing if the experiment has none.
void describe_own_price(const Experiment& experiment, ExperimentResult& result);

}  // namespace trireme
