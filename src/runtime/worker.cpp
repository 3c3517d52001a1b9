#include "runtime/worker.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/devices/core_speed.h"
#include "base/devices/device.h"
#include "base/seconds.h"
#include "base/text.h"
#include "comm/flight_recorder.h"
#include "runtime/gradient_norms.h"
#include "runtime/graph/step_graph.h"
#include "runtime/migrate/training_state.h"
#include "runtime/worker/agree.h"
#include "runtime/worker/averages.h"
#include "runtime/worker/batches_in_flight.h"
#include "runtime/worker/context.h"
#include "runtime/worker/deferred_numbers.h"
#include "runtime/worker/gradient_pieces.h"
#include "runtime/worker/gradients.h"
#include "runtime/worker/kept_steps.h"
#include "runtime/worker/layer_buffers.h"
#include "runtime/worker/layer_execution.h"
#include "runtime/worker/pace.h"
#include "runtime/worker/prepared_program.h"
#include "runtime/worker/step_meter.h"
#include "runtime/worker/sub_groups.h"
#include "runtime/worker/transfers.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kAllDone = "its program done";

/// A program and the object that executes its layers.
struct RunningProgram {
  RunningProgram(const Program& program, const WorkerContext& context, SubGroups& groups, LayerBuffers& buffers,
                 DeferredNumbers& numbers, StepOutcome& outcome)
      : prepared(program, context, groups, buffers), layers(context, prepared, numbers, outcome) {}

  PreparedProgram prepared;
  LayerExecution layers;
};

}  // namespace

/// Executes instruction lists. The instructions are implemented in the parts; each part has one duty and owns its data.
struct Worker::State {
  State(int rank, const Model& model, Precision precision, std::unique_ptr<Communicator> world,
        std::unique_ptr<Replicas> own_replicas, const WorkerOptions& worker_options);

  void begin(const Program* training_program, const Program* evaluation_program);
  void resume(const Program& program, const TrainingState& from);
  StepOutcome run_list(RunningProgram& running, int64_t number, bool trace);
  StepOutcome run_instructions(RunningProgram& running, int64_t number, bool trace);
  void run_usually(RunningProgram& running, int64_t number);
  void run_recorded(RunningProgram& running, int64_t number, StepGraph::Way way);
  void execute(RunningProgram& running, const Instruction& instruction, BatchInFlight& batch);
  void reduce(PreparedProgram& prepared, const Instruction& instruction);
  bool is_mine(const Op& op) const { return op.mesh.index_of(context.rank) >= 0; }
  const std::vector<BucketId>& trainable() const;

  const WorkerOptions options;
  const std::unique_ptr<Communicator> communicator;
  const std::unique_ptr<Replicas> replicas;
  const WorkerContext context;
  FlightRecorder* const recorder;  ///< null: no flight recorder is read
  std::function<void()> detach;    ///< detaches from the store, if there is one

  SubGroups groups;
  LayerBuffers buffers;
  Averages averages;
  BatchesInFlight batches;
  TransferExecution transfers;
  GradientPieces pieces;
  KeptSteps kept_steps;
  Agree agreement;
  Pace pace;
  StepOutcome outcome;  ///< of the list that is being executed
  DeferredNumbers numbers{outcome};
  StepMeter meter;
  CoreSpeed core_speed;
  std::unique_ptr<RunningProgram> training, evaluation;
  std::unique_ptr<StepGraph> graph;  ///< null: training steps are not replayed
};

Worker::State::State(int rank, const Model& model, Precision precision, std::unique_ptr<Communicator> world,
                     std::unique_ptr<Replicas> own_replicas, const WorkerOptions& worker_options)
    : options(worker_options),
      communicator(std::move(world)),
      replicas(std::move(own_replicas)),
      context{rank, model, precision, options, *communicator, *replicas},
      recorder(flight_recorder(*communicator)),
      groups(*communicator),
      buffers(context),
      averages(context, buffers),
      batches(model),
      transfers(context),
      pieces(context),
      kept_steps(context, buffers),
      agreement(context, batches),
      pace(context),
      meter(context, outcome) {}

void Worker::State::begin(const Program* training_program, const Program* evaluation_program) {
  c10::InferenceMode inference;
  const auto prepare = [&](const Program& program) {
    return std::make_unique<RunningProgram>(program, context, groups, buffers, numbers, outcome);
  };
  if (training_program) training = prepare(*training_program);
  if (evaluation_program) evaluation = prepare(*evaluation_program);
  if (training_program && options.records_steps && StepGraph::obstacle(*training_program, context).empty())
    graph = std::make_unique<StepGraph>(context, numbers);
  check_internal(!training_program || !options.optimizer.is_layerwise() || training_program->keeps_gradients,
                 "a program for a layer-wise optimizer takes norms");
  check_internal(!training_program || !options.gradient_norms || obstacle_to_gradient_norms(*training_program).empty(),
                 "norms of gradients are measured where pieces of them can be told apart");
  const Program& program = training_program ? *training_program : *evaluation_program;
  if (options.resumed) return resume(program, *options.resumed);
  replicas->initialize(options.seed);
  communicator->barrier();
  if (!context.model.initial_values()) return;
  give_initial_values(program, context.rank, context.model.initial_values()->tensors, *replicas);
  communicator->barrier();
}

/// Takes this worker's part of the training state `from` of an earlier set of workers. (Running statistics were taken
/// when the buffers were created.)
void Worker::State::resume(const Program& program, const TrainingState& from) {
  batches.resume(from.updates);
  replicas->resume(options.seed, from.updates);
  communicator->barrier();
  give_state(program, context.rank, from, *replicas);
  for (const Op& op : program.ops) {
    if (!training || !is_mine(op)) continue;
    averages.resume(op, from);
    training->layers.states().resume(op, from);
  }
  communicator->barrier();
}

const std::vector<BucketId>& Worker::State::trainable() const {
  static const std::vector<BucketId> none;
  return training ? training->prepared.trainable : none;
}

// ------------------------------------------------------------------------------------------------ instructions

void Worker::State::reduce(PreparedProgram& prepared, const Instruction& i) {
  if (outcome.not_finite.empty()) {
    outcome.not_finite = not_finite_before(i, *prepared.program, *replicas, numbers);
    if (!outcome.not_finite.empty()) outcome.not_finite_at = communicator->now();
  }
  if (prepared.program->optimizer_sharding >= OptimizerSharding::zero2) prepared.drop_views(i.index, true);
  replicas->reduce(i.index, i.last);
}

void Worker::State::execute(RunningProgram& running, const Instruction& i, BatchInFlight& batch) {
  auto& [prepared, layers] = running;
  const auto micro = [&]() -> MicroBatch& { return batch.micro_batches[size_t(i.micro_batch)]; };
  pieces.measure(prepared, i, batch, outcome.norms);
  switch (i.code) {
    case OpCode::load_batch: return layers.load(i.index, batch, micro());
    case OpCode::forward: return layers.forward(i, batch, micro());
    case OpCode::recompute: return layers.recompute(i.index, batch, micro());
    case OpCode::backward:
    case OpCode::backward_input: return layers.backward(i, batch, micro());
    case OpCode::backward_weight: return layers.backward_weight(i.index, batch, micro());
    case OpCode::redistribute:
    case OpCode::redistribute_again:
    case OpCode::send:
    case OpCode::receive: return transfers.run(*prepared.program, i, batch, micro());
    case OpCode::prefetch_weights: return replicas->prefetch(i.index);
    case OpCode::gather_weights: return replicas->gather(i.index);
    case OpCode::release_weights: prepared.drop_views(i.index, false); return replicas->release(i.index);
    case OpCode::reduce_gradients: return reduce(prepared, i);
    case OpCode::clip_gradients: return scale_gradients(context, prepared, batch, outcome);
    case OpCode::optimizer_step:
      if (options.keeps_whole_steps) numbers.finish();
      kept_steps.agree(batches.trained(), outcome.loss_sum);
      return replicas->update(i.index, batch.input.learning_rate, batch.clip_scale, batch.trust);
    case OpCode::synchronize_buffers: return layers.synchronize_buffers(i.index);
    case OpCode::agree:
      numbers.finish();
      if (i.index == kBeforeStep) agreement.before_step(batch, outcome);
      else agreement.after_step(prepared, outcome);
      return;
  }
}

StepOutcome Worker::State::run_list(RunningProgram& running, int64_t number, bool trace) {
  try {
    return run_instructions(running, number, trace);
  } catch (const std::exception& error) {
    // Operations of the collective queue would wait for workers that wait for this worker, and the queue's destructor
    // waits for them. So abort first.
    if (communicator->moves_beside_computing())
      communicator->abort(fmt::format("rank {} failed: {}", context.rank, first_line(error)));
    // If an operation of the queue failed, this thread has seen only the abort. Rethrow the original error.
    if (const std::exception_ptr first = replicas->failure()) std::rethrow_exception(first);
    throw;
  }
}

/// Executes the instruction list once: the work on batch `number` and, at their lags, on earlier batches.
StepOutcome Worker::State::run_instructions(RunningProgram& running, int64_t number, bool trace) {
  const Program& program = *running.prepared.program;
  outcome = {};
  numbers.take();  // of a step that failed
  meter.begin(program, trace);
  const BatchInFlight* const newest = &running == training.get() && graph ? batches.find(number) : nullptr;
  const StepGraph::Way way = newest ? graph->way_of(newest->input, trace) : StepGraph::Way::usual;
  if (way == StepGraph::Way::usual) run_usually(running, number);
  else run_recorded(running, number, way);
  if (newest && way == StepGraph::Way::usual) graph->note_usual(newest->input, trace, running.layers.take_reads_step());
  if (recorder) recorder->begin_instruction(kAllDone);
  meter.end();
  batches.retire(number - program.greatest_lag);
  return std::move(outcome);
}

/// Executes the list by launching every operator.
void Worker::State::run_usually(RunningProgram& running, int64_t number) {
  const Program& program = *running.prepared.program;
  const std::vector<Instruction>& list = program.instructions(context.rank);
  const bool measures_core = !options.times && worker_place().is_cpu();
  for (size_t k = 0; k < list.size() && outcome.was_made(); ++k) {
    const Instruction& i = list[k];
    BatchInFlight* const batch = batches.find(number - i.lag);
    if (!batch) continue;
    if (!kept_steps.updates()) context.stop_if_aborted();
    if (recorder) recorder->begin_instruction(running.prepared.texts[k]);
    if (measures_core && !meter.has_waited() && core_speed.measure(steady_seconds())) meter.end_own_work();
    meter.begin_instruction(i);
    pace.before(program, i, batch->input);
    execute(running, i, *batch);
    pace.after(program, i, batch->input);
    pace.sleep(i, meter.end_work(), batch->input.slowness);
    meter.end_instruction(i);
  }
  outcome.core_times = core_speed.take();
  numbers.finish();
  if (!outcome.not_finite.empty() && outcome.not_finite_at == 0) outcome.not_finite_at = communicator->now();
}

/// Replays the list. Records it first if it has not been recorded.
void Worker::State::run_recorded(RunningProgram& running, int64_t number, StepGraph::Way way) {
  BatchInFlight& batch = *batches.find(number);
  context.stop_if_aborted();
  graph->prepare(batch, batches.all_trained());
  if (way == StepGraph::Way::record) {
    graph->record([&] {
      for (const Instruction& i : running.prepared.program->instructions(context.rank)) execute(running, i, batch);
    });
  } else {
    for (const BucketId id : trainable()) replicas->note_replayed(id);
  }
  graph->replay(outcome);
}

// ------------------------------------------------------------------------------------------------ Worker

Worker::Worker(int rank, const Model& model, const Program* training, const Program* evaluation, ParameterStore& store,
               LocalWorld& world, const WorkerOptions& options) {
  const Program& program = training ? *training : *evaluation;
  std::unique_ptr<Communicator> communicator = world.communicator(rank);
  std::unique_ptr<Replicas> replicas =
      program.private_replicas ? private_replicas(rank, program, store.precision(), *communicator, options.optimizer)
                               : shared_replicas(rank, program, store, world, options.optimizer);
  state_ =
      std::make_unique<State>(rank, model, store.precision(), std::move(communicator), std::move(replicas), options);
  if (program.private_replicas) {
    store.attach(rank, state_->replicas.get());
    state_->detach = [&store, rank] { store.attach(rank, nullptr); };
  }
  state_->begin(training, evaluation);
}

Worker::Worker(int rank, const Model& model, const Program* training, const Program* evaluation, Precision precision,
               std::unique_ptr<Communicator> world, const WorkerOptions& options) {
  const Program& program = training ? *training : *evaluation;
  check_internal(program.private_replicas, "workers that share no memory have replicas of their own");
  std::unique_ptr<Replicas> replicas = private_replicas(rank, program, precision, *world, options.optimizer);
  state_ = std::make_unique<State>(rank, model, precision, std::move(world), std::move(replicas), options);
  state_->begin(training, evaluation);
}

Worker::~Worker() {
  if (state_ && state_->detach) state_->detach();
}

StepOutcome Worker::train(const StepInput& input) {
  State& s = *state_;
  check_internal(s.training != nullptr, "a worker runs only programs that it was given");
  check_internal(!s.training->prepared.program->agrees || s.options.agreement,
                 "workers of a program that agrees have an agreement");
  c10::InferenceMode inference;
  s.averages.show(false, s.batches.all_trained(), s.trainable());
  s.training->layers.states().note_rows(input.batch.samples);
  const int64_t number = s.batches.begin_training(s.training->prepared, input);
  if (s.recorder) s.recorder->begin_step(input.step + 1);
  s.kept_steps.begin();
  StepOutcome step = s.run_list(*s.training, number, input.trace);
  if (!step.was_made()) {
    s.batches.return_to(number);
    return step;
  }
  s.averages.add_step(s.batches.all_trained());
  s.kept_steps.end(s.batches.trained());
  return step;
}

StepOutcome Worker::drain() {
  c10::InferenceMode inference;
  State& s = *state_;
  StepOutcome sum;
  for (int lag = 1; s.training && lag <= s.training->prepared.program->greatest_lag && !s.batches.is_empty(); ++lag) {
    StepOutcome part = s.run_list(*s.training, s.batches.trained() - 1 + lag, false);
    if (lag == 1) sum.begin = part.begin;
    sum.end = part.end;
    sum.compute_seconds += part.compute_seconds;
    sum.exposed_seconds += part.exposed_seconds;
    sum.waiting_seconds += part.waiting_seconds;
    sum.bytes_sent += part.bytes_sent;
  }
  s.batches.note_empty();
  return sum;
}

StepOutcome Worker::evaluate(const StepInput& input) {
  State& s = *state_;
  check_internal(s.evaluation != nullptr, "a worker runs only programs that it was given");
  check_internal(s.batches.is_empty(), "the pipeline is empty when a worker evaluates");
  c10::InferenceMode inference;
  s.averages.show(true, s.batches.all_trained(), s.trainable());
  const int64_t number = s.batches.begin_evaluation(s.evaluation->prepared, input);
  return s.run_list(*s.evaluation, number, input.trace);
}

void Worker::settle(bool averaged) {
  c10::InferenceMode inference;
  state_->averages.show(averaged, state_->batches.all_trained(), state_->trainable());
  state_->replicas->settle();
}

void Worker::barrier() { state_->communicator->barrier(); }

Communicator& Worker::world() { return *state_->communicator; }

Replicas& Worker::replicas() { return *state_->replicas; }

int64_t Worker::updates() const { return state_->batches.all_trained() - state_->agreement.updates_before_restart(); }

HeldParts Worker::held() const {
  const State& s = *state_;
  check_internal(s.training != nullptr, "only a worker that trains holds training state");
  HeldParts held;
  for (const Op& op : s.training->prepared.program->ops) {
    if (!s.is_mine(op)) continue;
    if (op.mesh.data_index(s.context.rank) == 0) {
      s.buffers.add_held(op, held.buffers);
      s.averages.add_held(op, held.averaged_buffers);
    }
    s.training->layers.states().add_held(op, held.carried);
  }
  return held;
}

std::optional<WholeSteps> Worker::return_to_whole_step() {
  State& s = *state_;
  check_internal(s.options.keeps_whole_steps && s.context.rank == 0,
                 "only rank 0 with keeps_whole_steps returns to a whole step");
  const c10::InferenceMode inference;
  if (s.kept_steps.updates()) return std::nullopt;
  s.averages.hide_alone(s.trainable());
  s.kept_steps.restore_statistics();
  s.batches.return_to(s.kept_steps.steps().done);
  return s.kept_steps.steps();
}

void Worker::show(ReplicaView& view) const {
  check_internal(state_->training != nullptr, "a replica that agrees trains");
  state_->agreement.show(state_->training->prepared, state_->batches.all_trained() > 0, view);
}

const std::vector<at::Tensor>* Worker::buffers(OpId op) const {
  if (!state_->training) return nullptr;
  const std::vector<OpBinding>& bindings = state_->training->prepared.bindings;
  return op < OpId(bindings.size()) && bindings[size_t(op)].op ? &bindings[size_t(op)].buffers : nullptr;
}

}  // namespace trireme
