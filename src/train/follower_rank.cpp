#include "train/follower_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/devices/gpu.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "experiment/batches.h"
#include "experiment/run_device.h"
#include "forecast/agreement_plan.h"
#include "train/agreement/early_end.h"
#include "train/run.h"
#include "train/share_state.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kPollSeconds = 0.05;
constexpr double kSecondsForRank0 = 1;        // after an interrupt, for rank 0 to end the run in its way
constexpr double kSecondsForCheckpoint = 12;  // the same if rank 0 writes a checkpoint
constexpr double kPatienceSeconds = 1;        // after that, for this rank's worker to finish its current layer

}  // namespace

void run_follower_rank(const RunSpec& given, const Model& model, const TaskData& data, const Plan& plan,
                       const std::shared_ptr<ProcessRank>& process, const std::atomic<bool>& interrupted) {
  const RunSpec experiment = on_its_devices(whole_experiment(given, plan), plan);
  validate(plan, model, std::max<int64_t>(1, experiment.batch / plan.replicas), fmt::format("plan {}", plan.name));
  check_shapes(experiment, model, data, plan);
  check_early_stopping(experiment, data, plan, ReplicaHosting::processes);
  install_memory_accounting();
  if (experiment.device != c10::DeviceType::CPU) install_gpu_memory_accounting();
  const std::shared_ptr<Communicator> leaders = plan.agreement.empty() ? nullptr : process->worker_communicator();
  RunOptions options{.make_world = leaders ? replicas_as_ranks(*leaders) : MakeReplicaWorld(), .process = process};
  share_beginning(options);
  if (leaders) options.process.reset();
  const double seconds_for_rank_0 = options.writes_checkpoints ? kSecondsForCheckpoint : kSecondsForRank0;
  const auto run = std::make_shared<Run>(experiment, model, data, plan, std::move(options));
  std::thread workers([run, leaders] { run->work_all(); });
  double interrupted_at = 0;
  bool aborted = false;
  while (true) {
    bool timed_out = false;
    // Of this rank only: rank 0 has the run's records.
    const bool has_entry = run->records.next(kPollSeconds, timed_out).has_value();
    if (!has_entry && !timed_out) break;
    if (!interrupted) continue;
    if (interrupted_at == 0) interrupted_at = steady_seconds();
    if (run->agreement()) run->agreement()->stop(kInterrupted);
    process->request_end();  // if only this rank got the signal, rank 0 ends the run as if all ranks had got it
    const double waited = steady_seconds() - interrupted_at;
    if (!aborted && waited > seconds_for_rank_0) {
      aborted = true;
      run->abort(leaders ? interrupted_on(process->rank()) : fmt::format("rank {} was interrupted", process->rank()));
    }
    if (waited > seconds_for_rank_0 + kPatienceSeconds) {
      workers.detach();
      fail_run({fmt::format("rank {}", process->rank()), "interrupted",
                "its workers were in the middle of a layer and did not stop in time", ""});
    }
  }
  workers.join();
  if (run->error() && !(leaders && ends_well(process->abort_reason()))) std::rethrow_exception(run->error());
}

}  // namespace trireme
