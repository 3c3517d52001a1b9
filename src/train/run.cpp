#include "train/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/memory.h"
#include "base/seconds.h"
#include "base/text.h"
#include "cost/virtual_costs.h"
#include "experiment/make_plan.h"
#include "experiment/run_device.h"
#include "forecast/predict.h"
#include "runtime/gradient_norms.h"
#include "runtime/whole_step.h"
#include "runtime/worker_threads.h"
#include "train/agreement/agreement_state.h"
#include "train/final_metrics.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);
constexpr int64_t kTracedStep = 10;  // counted from the first step of a plan; a shorter run traces its last step

/// Returns the samples that `rank` loads of a batch of `samples` samples, by micro-batch.
std::vector<Range> loaded_samples(const Program& program, const Model& model, int rank, int64_t samples) {
  std::vector<Range> ranges;
  for (const Value& value : program.values) {
    if (!value.loaded || value.layout.mesh.index_of(rank) < 0) continue;
    Shape shape = model.node(value.node).sample_shape;
    shape.insert(shape.begin(), 0);
    for (int k = 0; k < program.micro_batches; ++k) {
      const Range part = share_of(samples, program.micro_batches, k);
      shape[0] = part.size();
      const Range own = value.layout.box_of(rank, shape)[0];
      ranges.push_back({part.begin + own.begin, part.begin + own.end});
    }
  }
  return ranges;
}

CompileOptions training_options(const RunSpec& experiment, const Plan& plan) {
  CompileOptions options = options_of(experiment, plan, true);
  options.overlap = overlap_of(experiment);
  return options;
}

}  // namespace

LocalWorld world_of(const RunSpec& experiment, std::shared_ptr<EmulatedLinks> links, int threads) {
  if (!experiment.virtual_machines) return LocalWorld(threads, std::move(links));
  return LocalWorld(threads,
                    std::make_shared<VirtualTime>(threads, transfer_times(experiment.virtual_machines->links)));
}

std::unique_ptr<InstructionTimes> times_of(const RunSpec& experiment, const Model& model) {
  if (!experiment.virtual_machines) return nullptr;
  const CostSource& source = *experiment.virtual_machines;
  return std::make_unique<ComputeCosts>(model, source.cluster, source.layers, source.links,
                                        InstructionCostOptions{.precision = experiment.precision,
                                                               .batch_norm = experiment.batch_norm,
                                                               .loading = source.loading,
                                                               .slowness = source.slowness,
                                                               .sharing = source.sharing});
}

Phase::Phase(const RunSpec& experiment, const Model& model, Plan p, std::vector<int> by_rank,
             const std::shared_ptr<EmulatedLinks>& links, int threads)
    : plan(std::move(p)),
      workers(std::move(by_rank)),
      training(compile(model, plan, training_options(experiment, plan))),
      evaluation(compile(model, plan, options_of(experiment, plan, false))),
      times(times_of(experiment, model)),
      weights(training, model),
      gatherer(training) {
  const bool agrees = !plan.agreement.empty();
  for (int r = 0; r < plan.replicas; ++r) {
    const auto make_world = [&] { return agrees ? LocalWorld(threads) : world_of(experiment, links, threads); };
    groups.push_back(std::make_unique<ReplicaGroup>(r, r * plan.devices, training, make_world));
    // As between the machines that the links represent.
    if (experiment.links && !agrees) groups.back()->world.move_beside_computing();
  }
}

void Phase::abort(const std::string& reason) {
  for (const auto& group : groups) group->world.abort(reason);
}

Run::Run(const RunSpec& e, const Model& m, const TaskData& d, const Plan& plan, RunOptions options)
    : experiment(e),
      model(m),
      data(d),
      batches(experiment, data),
      steps(plan.agreement.empty() ? steps_of(e.length, sampler().steps_per_epoch()) : 0),
      evaluate_every(steps_of(e.evaluate_every, sampler().steps_per_epoch())),
      checkpoint_every(options.writes_checkpoints ? steps_of(e.checkpoint.every, sampler().steps_per_epoch()) : 0),
      begun_at(options.resumed ? options.resumed->step : 0),
      records(plan.devices),
      places_(place_workers(experiment, plan)),
      adapts_(options.adapts),
      evaluates_first_(options.resumed && options.resumed->awaits_evaluation),
      links_(e.links && !e.virtual_machines ? std::make_shared<EmulatedLinks>(kMaxDevices, *e.links) : nullptr),
      process_(std::move(options.process)),
      stopping_(e.early_stopping, d.train->task(), e.target,
                options.resumed ? options.resumed->stopping : StoppingState()) {
  check_internal(!e.virtual_machines || (e.private_replicas && !process_),
                 "workers in modelled time are threads with replicas of their own");
  check_internal(!process_ || (experiment.private_replicas && process_->size() == plan.devices),
                 "each process has a rank and replicas of its own");
  if (options.resumed) state_ = std::move(options.resumed->state);
  if (state_) resume_best(options.resumed->best);
  auto phase =
      std::make_unique<Phase>(experiment, model, plan, std::vector<int>(), links_, process_ ? 1 : plan.devices);
  phase->first_step = begun_at;
  if (state_) check_agreement_state(plan, *state_);
  if (!plan.agreement.empty()) {
    AgreementBeginning beginning{.step = begun_at};
    if (state_) beginning.replicas = progress_in(*state_, plan.replicas);
    if (options.resumed) {
      beginning.seconds = options.resumed->seconds;
      beginning.stopping = options.resumed->stopping;
      beginning.best = options.resumed->best;
      beginning.reached = options.resumed->reached;
    }
    agreement_ =
        std::make_unique<RunAgreement>(experiment, model, data, phase->plan, phase->training, phase->evaluation,
                                       records, options.make_world, options.writes_checkpoints, beginning);
    steps = agreement_->steps_of_run();
    if (options.writes_checkpoints)
      checkpoint_every = steps_of(experiment.checkpoint.every, agreement_->batches().steps_per_epoch(0));
    agreement_->takes_server_state = [this](bool is_last) { return takes_server_state(is_last); };
    agreement_->on_server_state = [this](TrainingState state) {
      handed_over_ = agreement_->steps_so_far();
      handover.put(agreement_->with_evaluations({.step = handed_over_,
                                                 .state = std::move(state),
                                                 .plan = current_phase()->plan.in_short(model),
                                                 .samples = agreement_->samples()}));
    };
    if (state_) agreement_->resume(std::move(*state_), phase->groups);
    state_.reset();
  }
  if (experiment.early_stopping.watches() && !agreement_)
    records.on_evaluation = [this](const StepRecord& evaluation) { end_if_due(evaluation); };
  begin_phase(std::move(phase));
}

/// Returns the bytes of a worker beyond which an allocation fails. 0: the adapter handles the limit instead.
int64_t Run::enforced_limit(int64_t step) const {
  const std::vector<MemoryChange>& changes = experiment.memory_changes;
  if (adapts_ && !changes.empty() && changes.front().at_step <= step) return 0;
  return memory_limit_at(changes, experiment.device_memory, step);
}

bool Run::saves_weights() const {
  return experiment.save_weights.value_or(bytes_of_weights(model, experiment.precision) <= kLargestSavedUnasked);
}

/// Returns a function that lists the samples of a batch that this process' worker reads; null if workers are threads:
/// together they read all.
std::function<std::vector<Range>(int64_t)> Run::samples_of_process(const Phase& phase) const {
  if (!process_) return {};
  return [this, &phase, rank = process_->rank()](int64_t samples) {
    std::vector<Range> ranges = loaded_samples(phase.training, model, rank, samples);
    for (const Range& range : loaded_samples(phase.evaluation, model, rank, samples)) ranges.push_back(range);
    return ranges;
  };
}

void Run::begin_phase(std::unique_ptr<Phase> phase) {
  Phase& p = *phase;
  if (!agreement_) begin_loading(p, p.only_group(), p.first_step);
  plans_.push_back(p.plan);
  memory_.resize(std::max(memory_.size(), size_t(p.plan.workers())));
  std::shared_ptr<Phase> last = std::move(phase);  // its threads end outside the lock
  MutexLock lock(mutex_);
  for (; devices_ < p.plan.workers(); ++devices_) {
    set_memory_limit(devices_, enforced_limit(p.first_step));
    reset_memory_peak(devices_);
  }
  std::swap(phase_, last);
  if (!abort_reason_.empty()) p.abort(abort_reason_);
}

/// Called when a replica begins. Replicas that train in other processes load nothing here.
void Run::begin_loading(const Phase& phase, ReplicaGroup& group, int64_t first_step) {
  group.next_step = first_step;
  group.next_test = evaluates_first_ && plans_.empty() ? 0 : batches.evaluations();
  group.loader = std::make_unique<Loader>([this, &group] { return next_batch(group); },
                                          LoaderOptions{.threads = loading_threads_of(experiment, *data.train),
                                                        .readers = group.world.size(),
                                                        .wanted = samples_of_process(phase),
                                                        .devices = devices_to_copy_to(experiment, phase.plan)},
                                          [&group] { return group.world.abort_reason(); });
}

/// Returns the next batch of the run, in the order in which every worker takes them: the batch of each step and, after
/// a step with an evaluation, the batches of the test set.
std::optional<PlannedBatch> Run::next_batch(ReplicaGroup& group) const {
  if (agreement_) {
    const int64_t end = agreement_->steps_of_replica(group.number);
    return end > 0 && group.next_step >= end ? std::nullopt
                                             : std::optional(agreement_->batch(group.number, group.next_step++));
  }
  if (group.next_test < batches.evaluations()) return batches.evaluation(group.next_test++);
  if (group.next_step == steps) return std::nullopt;
  if (evaluates_after(group.next_step)) group.next_test = 0;
  return batches.training(group.next_step++);
}

StepInput Run::training_input(const Phase& phase, ReplicaGroup& group, int rank, int64_t step) const {
  return {.step = step,
          .batch = group.loader->take(reader_of(rank)),
          .learning_rate = learning_rate_at(experiment, step, steps, sampler().steps_per_epoch()),
          .clip_norm = experiment.clip_norm,
          .trace = step == std::min(phase.first_step + kTracedStep, steps - 1),
          .starts_stream = sampler().starts_anew(step % sampler().steps_per_epoch()),
          .slowness = slowness_at(experiment.worker_changes, phase.worker(rank), step)};
}

/// Returns the seconds since the last call, on the worker's clock.
double Run::load_seconds(ReplicaGroup& group, int rank) const {
  const double seconds = group.loader->take_load_seconds(reader_of(rank));
  return experiment.virtual_machines ? 0 : seconds;
}

std::unique_ptr<Worker> Run::make_worker(Phase& phase, ReplicaGroup& group, int rank, ParameterStore& store) {
  const WorkerOptions options{
      .seed = experiment.seed,
      .batch_norm = experiment.batch_norm,
      .optimizer = experiment.optimizer,
      .gradient_norms = experiment.noise_scale && obstacle_to_gradient_norms(phase.training).empty(),
      .keeps_whole_steps = keeps_whole_steps(phase),
      .records_steps = experiment.step_graph,
      .times = phase.times.get(),
      .agreement = group.agreement,
      .resumed = group.resumed ? &*group.resumed
                 : state_      ? &*state_
                               : nullptr};
  if (!process_)
    return std::make_unique<Worker>(rank, model, &phase.training, &phase.evaluation, store, group.world, options);
  return std::make_unique<Worker>(rank, model, &phase.training, &phase.evaluation, experiment.precision,
                                  process_->worker_communicator(), options);
}

void Run::post(int rank, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds) {
  if (process_) return process_->post(records, step, evaluation, std::move(outcome), load_seconds);
  records.post(rank, step, evaluation, std::move(outcome), load_seconds);
}

void Run::work(Phase& phase, int rank, Worker& worker, ParameterStore& store) {
  if ((rank == 0 || process_) && state_) note_begin();  // all workers have taken their parts
  int64_t step = phase.first_step;
  if (evaluates_first_ && plans_.size() == 1) evaluate(phase, rank, worker, store, step);
  for (; step < steps && enters(step); ++step) {
    if (links_) links_->begin_step(step);
    if (!experiment.memory_changes.empty()) set_memory_limit(rank, enforced_limit(step));
    if (gate.probes_before(step)) {
      const LinkEstimate links = probe_links(worker.world());
      MutexLock lock(mutex_);
      measured_links_ = links;
    }
    StepOutcome outcome = worker.train(training_input(phase, phase.only_group(), rank, step));
    post(rank, step + 1, false, std::move(outcome), load_seconds(phase.only_group(), rank));
    if (evaluates_after(step)) {
      worker.drain();
      evaluate(phase, rank, worker, store, step + 1);
    }
    if (hands_over_after(step)) hand_over(phase, rank, worker, store, step + 1);
  }
  worker.drain();
  if (changes_plan(phase, rank, worker, step)) return phase.gatherer.gather(rank, worker, store);
  if (checkpoint_every > 0 && step > begun_at && !hands_over_after(step - 1))
    hand_over(phase, rank, worker, store, step);
  end_work(phase, rank, worker, store);
}

/// True in an elastic run, so that the last step is not lost with a rank.
bool Run::keeps_whole_steps(const Phase& phase) const {
  return process_ && experiment.elastic && checkpoint_every > 0 &&
         obstacle_to_whole_steps(phase.training, model).empty();
}

void Run::end_work(Phase& phase, int rank, Worker& worker, const ParameterStore& store) {
  const bool wants_weights = saves_weights() || has_final_metrics(data);
  if (process_) {
    process_->finish(records, memory_);
    if (wants_weights) phase.weights.gather(worker, process_->states(), experiment.precision);
    return;
  }
  if (wants_weights) phase.weights.gather(rank, worker, store);
  memory_[size_t(rank)] = memory_use(rank);
}

/// Works on a thread of its own, as worker threads do. A failure here ends the other ranks too.
void Run::work_as_process(Phase& phase, ParameterStore& store) {
  const int rank = process_->rank();
  const auto body = [&](int) {
    std::unique_ptr<Worker> worker;
    try {
      worker = make_worker(phase, phase.only_group(), rank, store);
      work(phase, rank, *worker, store);
    } catch (const std::exception& error) {
      process_->abort(fmt::format("rank {} failed: {}", rank, first_line(error)));
      if (rank == 0 && worker && keeps_whole_steps(phase)) hand_over_alone(phase, *worker);
      throw;
    }
  };
  run_worker_threads(phase.only_group().world, body, {threads_of(phase)[size_t(rank)]}, rank);
}

/// Called after the workers have been refused `step`. Returns true if another plan's workers take over. All workers get
/// the same answer.
bool Run::changes_plan(Phase& phase, int rank, Worker& worker, int64_t step) {
  if (step == steps) return false;
  worker.barrier();  // all workers have been refused
  if (rank == 0) {
    MutexLock lock(mutex_);
    phase.ends_in_change = wanted_.has_value() && gate.reopen();
    if (phase.ends_in_change) {
      change_ = {.step = step,
                 .from = phase.plan.in_short(model) + on_workers(phase.workers),
                 .to = wanted_->plan.in_short(model) + on_workers(wanted_->workers),
                 .reason = wanted_->reason};
      change_began_ = steady_seconds();
    }
  }
  worker.barrier();
  return phase.ends_in_change;
}

/// Called when the workers have taken over from the previous ones.
void Run::note_begin() {
  state_.reset();
  if (plans_.size() == 1) return;  // the previous workers were those of an earlier run
  change_.seconds = steady_seconds() - change_began_;
  MutexLock lock(mutex_);
  changes_.push_back(change_);
}

/// Waits as long as the transfer over the links would take; the state itself stays in this process.
void Run::carry_state(const Phase& from, const Phase& to) {
  std::vector<int> was;
  for (int rank = 0; rank < to.plan.devices; ++rank) {
    int before = 0;
    while (before < from.plan.devices && from.worker(before) != to.worker(rank)) ++before;
    was.push_back(before < from.plan.devices ? before : -1);
  }
  const int64_t bytes = bytes_to_move(from.training, to.training, optimizer_state_count(experiment.optimizer),
                                      int64_t(c10::elementSize(master_type(experiment.precision))), was);
  if (bytes == 0) return;
  const EmulatedLinks::Time there = links_->message(0, 1, bytes);
  while (std::chrono::steady_clock::now() < there && last_phase().only_group().world.abort_reason().empty())
    std::this_thread::sleep_for(kPoll);
}

std::vector<int> Run::threads_of(const Phase& phase) const {
  int all = phase.plan.devices;
  for (int worker : phase.workers) all = std::max(all, worker + 1);
  const std::vector<int> threads = trireme::threads_of(experiment, all);
  std::vector<int> by_rank;
  for (int rank = 0; rank < phase.plan.devices; ++rank) by_rank.push_back(threads[size_t(phase.worker(rank))]);
  return by_rank;
}

void Run::work_all() {
  try {
    if (agreement_) agreement_->work([this](Hub& hub) { train_replica(*current_phase(), hub); });
    while (!agreement_) {
      {
        const std::shared_ptr<Phase> current = current_phase();
        Phase& phase = *current;
        ParameterStore store(phase.training, experiment.precision);
        ReplicaGroup& group = phase.only_group();
        if (process_) work_as_process(phase, store);
        else
          run_worker_threads(
              group.world, [&](int rank) { work(phase, rank, *make_worker(phase, group, rank, store), store); },
              threads_of(phase));
        if (!phase.ends_in_change) break;
        state_ = phase.gatherer.take();
      }
      std::optional<PlanSwitch> wanted;
      {
        MutexLock lock(mutex_);
        wanted.swap(wanted_);
      }
      validate(wanted->plan, model, experiment.batch, "plan " + wanted->plan.name);
      check_shapes(experiment, model, data, wanted->plan);
      const int threads = wanted->plan.devices;
      auto next = std::make_unique<Phase>(experiment, model, std::move(wanted->plan), std::move(wanted->workers),
                                          links_, threads);
      if (links_) carry_state(*current_phase(), *next);
      next->first_step = change_.step;
      records.change_plan(next->plan.devices);
      begin_phase(std::move(next));
    }
  } catch (...) {
    error_ = std::current_exception();
  }
  records.close();
}

void Run::change_plan(PlanSwitch wanted) {
  {
    MutexLock lock(mutex_);
    wanted_ = std::move(wanted);
  }
  gate.pause();
}

std::optional<LinkEstimate> Run::take_links() {
  MutexLock lock(mutex_);
  std::optional<LinkEstimate> taken;
  taken.swap(measured_links_);
  return taken;
}

void Run::stop(const std::string& reason) {
  if (!agreement_) gate.stop();
  else if (!agreement_->stop(reason)) abort(reason);
}

std::shared_ptr<Phase> Run::current_phase() const {
  MutexLock lock(mutex_);
  return phase_;
}

void Run::abort(const std::string& reason) {
  std::shared_ptr<Phase> phase;
  {
    MutexLock lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason;
    phase = phase_;
  }
  if (agreement_) agreement_->abort(reason);
  phase->abort(reason);
  if (process_) process_->abort(reason);
}

std::string Run::abort_reason() const {
  MutexLock lock(mutex_);
  return abort_reason_;
}

void Run::stop_loading() {
  const std::shared_ptr<Phase> current = current_phase();
  for (const auto& group : current->groups)
    if (group->loader) group->loader->stop();
}

int Run::devices() const {
  MutexLock lock(mutex_);
  return devices_;
}

std::vector<PlanChange> Run::changes() const {
  MutexLock lock(mutex_);
  return changes_;
}

}  // namespace trireme
