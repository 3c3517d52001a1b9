#include "train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/devices/gpu.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "comm/backend_list.h"
#include "comm/flight_recorder.h"
#include "experiment/batches.h"
#include "experiment/run_device.h"
#include "forecast/agreement_plan.h"
#include "forecast/drawing.h"
#include "forecast/predict.h"
#include "plan/named.h"
#include "train/agreement/early_end.h"
#include "train/coordinate/checkpointing.h"
#include "train/coordinate/coordinator.h"
#include "train/result/run_result.h"
#include "train/run.h"
#include "train/share_state.h"
#include "train/summary.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The result as far as it is known before training.
RunResult result_before(const RunSpec& experiment, const Model& model, const Plan& plan, const ProcessRank* process) {
  RunResult result;
  result.strategy = family_of(plan.name);
  result.name = plan.name;
  result.plan = plan.in_short(model);
  result.devices = plan.workers();
  result.blocks = block_strategies(plan, model);
  result.warnings = experiment.model_findings.notes;
  if (process) result.backend = process->backend();
  if (!experiment.virtual_machines_in_words.empty()) result.backend = kVirtualBackend.name;
  return result;
}

/// Returns how many workers can compute at once: the cores, or the GPUs, of all processes.
int places_there(const RunSpec& experiment, const ProcessRank* process) {
  if (experiment.device == c10::DeviceType::CPU) return process ? process->cores() : inspect_machine(false).cores;
  return process ? process->gpus() : int(visible_devices(experiment.device).size());
}

/// Moves the state that the run resumes into its options. Returns the point that earlier runs had reached.
CurvePoint resume_into(RunOptions& options, CheckpointUse& checkpoints) {
  if (!checkpoints.resumed) return {};
  const CheckpointIndex& index = checkpoints.resumed->index;
  options.resumed = {.step = index.step,
                     .seconds = index.seconds,
                     .state = std::move(checkpoints.resumed->state),
                     .awaits_evaluation = index.awaits_evaluation,
                     .stopping = index.stopping,
                     .best = index.best_evaluation,
                     .reached = index.reached};
  return {index.step, index.samples, index.seconds, index.loss};
}

/// `resumed`: the checkpoint of the earlier run that goes on; null: there is none.
Summary empty_summary(const Run& run, const TaskData& data, const Plan& plan, const Checkpoint* resumed) {
  const bool agrees = run.agreement() != nullptr;
  Summary summary(run.experiment, {data.train->task(), data.train->classes()}, plan.devices,
                  agrees ? data.train->size() : run.sampler().samples_per_epoch(), run.batches.test_samples(),
                  run.steps, agrees ? plan.replicas : 0);
  if (resumed && resumed->index.reached && resumed->index.reached->target == run.experiment.target)
    summary.note_reached(resumed->index.reached->after);
  return summary;
}

/// Returns the other rank that received the signal which ended the replicas' run; 0: none did.
int rank_that_ended(const Run& run, const RunEnding& ending, const ProcessRank& process) {
  if (ending.interrupted) return 0;
  if (const std::optional<int> rank = rank_interrupted(process.abort_reason())) return *rank;
  return !ending.timed_out && run.agreement()->stops().has_ended() ? run.agreement()->end_requested_by() : 0;
}

/// Trains on a thread beside this one, which coordinates. Returns how the run ended; its workers have ended, unless
/// they are abandoned.
RunEnding work(const std::shared_ptr<Run>& run, Coordinator& coordinator) {
  std::thread workers([run] { run->work_all(); });
  RunEnding ending;
  try {
    ending = coordinator.coordinate();
  } catch (...) {  // an observer that cannot continue (disk full) ends the run
    run->abort("the run's observer failed");
    workers.join();
    throw;
  }
  run->stop_loading();
  if (ending.abandoned) workers.detach();
  else workers.join();
  if (run->agreement() && !ending.abandoned) ending.ended_early = run->agreement()->ended_early();
  return ending;
}

}  // namespace

RunResult train(const RunSpec& given, const Model& model, const TaskData& data, const Plan& plan,
                TrainObserver& observer, const std::atomic<bool>& interrupted, Adapter* adapter,
                CheckpointUse checkpoints, const std::shared_ptr<ProcessRank>& process,
                const MakeReplicaWorld& make_world) {
  const RunSpec experiment = on_its_devices(whole_experiment(given, plan), plan);
  validate(plan, model, std::max<int64_t>(1, experiment.batch / plan.replicas), fmt::format("plan {}", plan.name));
  check_shapes(experiment, model, data, plan);
  check_early_stopping(experiment, data, plan, make_world.hosting);
  install_memory_accounting();
  if (experiment.device != c10::DeviceType::CPU) install_gpu_memory_accounting();
  RunResult result = result_before(experiment, model, plan, process.get());
  if (!make_world.make) add_plan_warnings(plan, model, experiment, places_there(experiment, process.get()), result);

  MakeReplicaWorld world_of_replicas = make_world;
  const std::unique_ptr<Communicator> leaders =
      process && !plan.agreement.empty() ? process->worker_communicator() : nullptr;
  if (leaders) world_of_replicas = replicas_as_ranks(*leaders);
  RunOptions options{.adapts = adapter != nullptr,
                     .writes_checkpoints = !checkpoints.folder.empty(),
                     .resumed = {},
                     .make_world = world_of_replicas,
                     .process = process};
  const CurvePoint begun_at = resume_into(options, checkpoints);
  if (!checkpoints.folder.empty() && plan.agreement.empty()) check_checkpoints(experiment, data);
  if (process) share_beginning(options);
  if (leaders) options.process.reset();
  auto run = std::make_shared<Run>(experiment, model, data, plan, std::move(options));
  add_length_warnings(*run, result);
  if (plan.stages.size() > 1 || plan.micro_batches > 1)
    result.schedule = std::make_shared<const nlohmann::json>(short_drawing(run->last_phase().training, model));
  const bool agrees = run->agreement() != nullptr;
  Summary summary = empty_summary(*run, data, plan, checkpoints.resumed ? &*checkpoints.resumed : nullptr);
  summary.go_on_from(begun_at.samples, begun_at.seconds, begun_at.step, agrees ? run->agreement()->begun_rest() : 0);
  Adaptation adaptation(*run, adapter);
  EarlyStopping stopping(experiment.early_stopping, data.train->task(), experiment.target,
                         checkpoints.resumed ? checkpoints.resumed->index.stopping : StoppingState());
  Checkpointing written(*run, checkpoints, observer, stopping);
  Coordinator coordinator({*run, summary, observer, adaptation, written, stopping, interrupted}, begun_at,
                          make_world.hosting == ReplicaHosting::clients);
  const double started = steady_seconds();
  RunEnding ending = work(run, coordinator);
  if (!ending.abandoned) {
    const LongWork saving(run->error() && process ? flight_recorder(process->world()) : nullptr, kSavingLastStep);
    written.finish();
  }
  add_changes(*run, ending, result);
  result.warnings.insert(result.warnings.end(), adaptation.warnings().begin(), adaptation.warnings().end());
  add_memory_use(*run, ending, result);
  if (agrees && !ending.abandoned) summary.write(run->agreement()->counts(), result, run->agreement()->inner_work());
  else summary.write(result);
  add_virtual_prices(experiment, result);
  written.write(result);
  if (const int rank = leaders ? rank_that_ended(*run, ending, *process) : 0; rank > 0) {
    ending.interrupted = true;
    ending.ended_rank = rank;
  }
  describe_ending(ending, ending.abandoned ? nullptr : run->error(), written.failure(), experiment, run->steps, result);
  if (agrees) add_replica_results(*run->agreement(), experiment, result);
  const bool ended_well = result.status == RunStatus::ok || result.status == RunStatus::timed_out;
  if (ended_well || result.status == RunStatus::interrupted) hand_out_weights(*run, ending, observer, result);
  if (ended_well) add_final_metrics(*run, started, interrupted, result);
  return result;
}

}  // namespace trireme
