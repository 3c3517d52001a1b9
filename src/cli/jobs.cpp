#include "cli/jobs.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/counted.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/described_devices.h"
#include "cli/plan_choice.h"
#include "experiment/make_plan.h"
#include "forecast/agreement_plan.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the strategy's name in rows: "hybrid" for both its forms, a plan file's stem.
std::string row_strategy(const Job& job) {
  return is_plan_file(job.strategy) ? std::filesystem::path(job.strategy).stem().string() : family_of(job.strategy);
}

std::string folder_name(const std::string& label) {
  std::string name = label;
  for (char& c : name)
    if (c == ' ' || c == ':' || c == '/' || c == '=' || c == ',') c = '-';
  return name;
}

/// Where the batch is per device. A batch that the row cannot have is left to ruled_out().
void set_batch(const RunSpec& experiment, Job& job) {
  if (experiment.batch_per_device == 0) return;
  job.samples = experiment.batch_per_device * job.devices;
  try {
    job.batch = of_row(experiment, job.strategy, job.devices).batch;
  } catch (const Error& error) {
    if (error.blame() != Blame::user) throw;
  }
}

/// Returns the jobs of one strategy as the experiment writes it.
std::vector<Job> jobs_of(const std::string& written, const RunSpec& experiment, const Model& model, bool to_run) {
  std::vector<Job> jobs;
  for (const std::string& strategy : expand_strategy(written)) {
    check_plan_name(strategy, "strategies");
    const auto add_for_each_number = [&] {
      for (int n : experiment.devices) {
        if (to_run) check_runs_here(n, experiment.file.string() + ": devices");
        jobs.push_back({strategy, n, fmt::format("{} x{}", strategy, n), ""});
      }
    };
    if (is_plan_file(strategy)) {
      const int devices = load_plan_file(strategy, experiment, model).workers();
      if (to_run) check_runs_here(devices, strategy);
      jobs.push_back(
          {strategy, devices, fmt::format("{} x{}", std::filesystem::path(strategy).stem().string(), devices), ""});
    } else if (is_update_policy(strategy)) {
      add_for_each_number();
    } else if (is_single(strategy)) {
      jobs.push_back({strategy, 1, strategy, ""});
    } else if (auto devices = devices_of_degrees(strategy)) {
      if (to_run) check_runs_here(*devices, "strategy " + strategy);
      jobs.push_back({strategy, *devices, strategy, ""});
    } else {
      add_for_each_number();
    }
  }
  for (Job& job : jobs) set_batch(experiment, job);
  // With too few devices, one row represents all forms of a family.
  const std::string first = jobs.front().strategy;
  std::erase_if(jobs, [&](const Job& job) {
    const NamedStrategy* named = look_up_strategy(job.strategy);
    return job.strategy != first && named && job.devices < named->least_devices;
  });
  return jobs;
}

}  // namespace

ExperimentOptions options_of_row(ExperimentOptions options, const Job& job) {
  if (job.batch > 0) options.set.push_back(fmt::format("batch={}", job.batch));
  return options;
}

void name_row(const Job& job, RunResult& row) {
  row.batch = job.samples;
  row.strategy = row_strategy(job);
  row.name = is_plan_file(job.strategy) ? row.strategy : job.strategy;
  if (is_planned(job.strategy) && row.devices < job.devices)
    row.warnings.push_back(fmt::format("uses {} of {}: no plan found for more devices is faster", row.devices,
                                       counted(job.devices, "device")));
}

RunResult row_without_run(const Job& job, RunStatus status, std::string reason) {
  RunResult row;
  row.plan = job.label;
  row.devices = job.devices;
  name_row(job, row);
  row.status = status;
  row.reason = std::move(reason);
  const std::string named = fmt::format("strategy {}: ", job.strategy);
  if (row.reason.starts_with(named)) row.reason.erase(0, named.size());  // the row shows the name
  return row;
}

std::vector<Job> list_jobs(const RunSpec& experiment, const Model& model, bool to_run) {
  std::vector<Job> jobs;
  std::set<std::string> folders;
  for (const std::string& written : experiment.strategies) {
    for (Job& job : jobs_of(written, experiment, model, to_run)) {
      // The same strategy twice measures its spread. Two plan files may have the same name.
      const std::string label = job.label;
      for (int i = 2; !folders.insert(job.folder = folder_name(job.label)).second; ++i)
        job.label = fmt::format("{} #{}", label, i);
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

std::optional<RunResult> ruled_out(const Job& job, const RunSpec& experiment, const Model& model, const TaskData& data,
                                   const Cluster& cluster) {
  if (awaits_devices(experiment)) {
    try {
      const RunSpec own = of_row(experiment, job.strategy, job.devices);
      check_batch(own, data);
      return ruled_out(job, own, model, data, cluster);
    } catch (const Error& error) {
      return row_without_run(job, RunStatus::skipped, first_line(error));
    }
  }
  // Plan files are validated already. The planner reports the errors of its plans.
  if (is_plan_file(job.strategy) || is_planned(job.strategy)) return std::nullopt;
  try {
    if (is_update_policy(job.strategy)) {
      plan_with_agreement(job.strategy, experiment, model, job.devices);
      return std::nullopt;
    }
    const Plan plan = named_plan(job.strategy, model, cluster, experiment.batch, {}, experiment.micro_batches);
    // A named strategy's stages are in order, so its ranks do not wait for each other in a circle. On thousands of
    // devices that check takes as long as the simulation.
    check_compiles(plan, experiment, model, fmt::format("strategy {}", job.strategy), plan.devices <= kMaxDevices);
    check_shapes(experiment, model, data, plan);
    return std::nullopt;
  } catch (const Error& error) {
    return row_without_run(job, RunStatus::skipped, first_line(error));
  }
}

}  // namespace trireme
