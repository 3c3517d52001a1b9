// Workers of a comparison that are processes: what `trireme launch` starts for a row or a measurement.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/launch_hosts.h"
#include "experiment/process_machines.h"
#include "experiment/run_spec.h"
#include "forecast/trial_steps.h"
#include "trireme/model.h"

namespace trireme {

class ForkServer;
class Progress;
struct ExperimentOptions;

/// What `trireme train --measure` measures between processes.
inline constexpr const char* kMeasureMachines = "machines";
inline constexpr const char* kMeasureStep = "step";

/// Where the processes of a comparison's rows are started.
struct LaunchedRows {
  std::vector<LaunchHost> hosts = {};   ///< with their processes; empty: workers are threads of one process
  std::vector<std::string> flags = {};  ///< of trireme launch, beside those for the number of processes

  bool are_processes() const { return !hosts.empty(); }
  int processes() const { return processes_of(hosts); }
  /// The words of a command line before "train" that start the first `count` processes; none for one process.
  std::vector<std::string> words(int count) const;
  std::string in_words() const;  ///< "2 processes on 1 machine"
};

/// Starts all processes, which measure the connections between them. `progress` shows their warnings, for example that
/// a rank has not arrived. nullopt: the user stopped it. Errors (run): they could not, and why.
std::optional<ProcessMachines> measure_machines(const LaunchedRows& rows, const ExperimentOptions& experiment,
                                                ForkServer& forks, Progress& progress);

/// Returns a function that measures a step of a plan with as many processes as the plan has workers. It writes the plan
/// to `plan_file`, which the first host must see, and removes it afterwards. The arguments must outlive the result.
MeasureStep trial_between_processes(const LaunchedRows& rows, const ExperimentOptions& experiment, const Model& model,
                                    std::string plan_file, ForkServer& forks, Progress& progress);

/// The lines that the processes of a measurement write for the comparison that started them.
std::string machines_message(const ProcessMachines& machines);
std::string trial_message(const TrialStep& step);

}  // namespace trireme
