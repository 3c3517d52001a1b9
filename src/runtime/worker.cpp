#include "runtime/worker.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/seconds.h"
#include "comm/virtual/virtual_time.h"
#include "runtime/gradient_norms.h"
#include "runtime/instruction_times.h"
#include "runtime/worker_state.h"

namespace trireme {
namespace {

constexpr double kShownWaitSeconds = 5e-6;  // shorter waits get no event of their own
constexpr double kShortestSleep = 2e-4;     // waking up takes a part of that
constexpr const char* kAllDone = "its program done";

/// What an emulated slowness slows.
bool is_slowed(EventKind kind) {
  return kind == EventKind::forward || kind == EventKind::recompute || kind == EventKind::backward || kind == EventKind::update;
}

/// Whether an instruction's time counts as computing: private replicas move tensors where shared ones only add in place.
bool computes(OpCode code, const Program& program) {
  const OpCodeDescription& description = description_of(code);
  return description.resource == Resource::device || description.resource == Resource::both ||
         (description.event == EventKind::reduce && !program.private_replicas);
}

}  // namespace

Worker::State::State(int rank, const Model& model, Precision precision, std::unique_ptr<Communicator> world, const WorkerOptions& options)
    : rank(rank), model(model), precision(precision), options(options), communicator(std::move(world)),
      recorder(flight_recorder(*communicator)), redistributor(*communicator, rank) {
  check_internal(!options.times || communicator->virtual_time(), "durations are for workers in virtual time");
}

void Worker::State::begin_batch(const Prepared& prepared, const StepInput& step_input, int64_t number) {
  const Program& program = *prepared.program;
  check_internal(!step_input.batch.model || step_input.batch.model->nodes().size() == model.nodes().size(),
                 "a batch's model differs from the worker's in shapes only");
  BatchInFlight& batch = in_flight.emplace_back();
  batch.number = number;
  batch.input = step_input;
  batch.micro_batches.resize(size_t(program.micro_batches));
  for (int k = 0; k < program.micro_batches; ++k) {
    MicroBatch& part = batch.micro_batches[size_t(k)];
    part.index = k;
    part.samples = share_of(step_input.batch.samples, program.micro_batches, k);
    part.values.resize(program.values.size());
    part.gradients.resize(program.values.size());
    part.uses_left = prepared.uses[size_t(k)];
    part.calls.resize(program.ops.size());
  }
}

void Worker::State::stop_if_aborted() const {
  if (const std::string reason = communicator->abort_reason(); !reason.empty())
    throw StoppedError({fmt::format("worker {}", rank), "stopped", reason, ""});
}

void Worker::State::execute(Prepared& prepared, const Instruction& i, BatchInFlight& batch) {
  auto micro = [&]() -> MicroBatch& { return batch.micro_batches[size_t(i.micro_batch)]; };
  if (options.gradient_norms && is_training) measure_pieces(prepared, i, batch);
  switch (i.code) {
    case OpCode::load_batch: return load(prepared, i.index, micro());
    case OpCode::forward: return forward(prepared, i, micro());
    case OpCode::recompute: return recompute(prepared, i.index, micro());
    case OpCode::backward:
    case OpCode::backward_input: return backward(prepared, i, micro());
    case OpCode::backward_weight: return backward_weight(prepared, i.index, micro());
    case OpCode::redistribute:
    case OpCode::send:
    case OpCode::receive: return move(prepared, i, micro());
    case OpCode::prefetch_weights: return replicas->prefetch(i.index);
    case OpCode::gather_weights: return replicas->gather(i.index);
    case OpCode::release_weights: prepared.drop_views(i.index, false); return replicas->release(i.index);
    case OpCode::reduce_gradients:
      check_gradient(*prepared.program, i);
      if (prepared.program->optimizer_sharding >= OptimizerSharding::zero2) prepared.drop_views(i.index, true);
      return replicas->reduce(i.index, i.last);
    case OpCode::clip_gradients: return take_norms(prepared, batch);
    case OpCode::optimizer_step:
      if (options.keeps_whole_steps && !whole_steps.updates) agree_on_step();
      return replicas->update(i.index, batch.input.learning_rate, batch.clip_scale, batch.trust);
    case OpCode::synchronize_buffers: return synchronize_buffers(prepared, i.index);
    case OpCode::agree: return agree(prepared, i, batch);
  }
}

void Worker::State::record(const Program& program, const Instruction& i, EventKind kind, double begin, double end, double waited,
                           int64_t bytes) {
  const std::string name = program.describe(i, model);
  // what waits for others does so first; layers that talk wait in between and are shown as one piece
  const bool waits_first = kind != EventKind::forward && kind != EventKind::recompute && kind != EventKind::backward && waited > kShownWaitSeconds;
  if (waits_first) outcome.events.push_back({rank, EventKind::wait, "wait: " + name, i.micro_batch, begin, begin + waited, 0});
  outcome.events.push_back({rank, kind, name, i.micro_batch, waits_first ? begin + waited : begin, end, bytes});
}

/// What an emulated slowness adds to `busy` seconds of an instruction. Many short ones are slept for together.
void Worker::State::sleep_for(EventKind kind, double busy, double slowness) {
  if (!is_slowed(kind) || slowness <= 1 || options.times) return;
  sleep_owed += (slowness - 1) * busy;
  if (sleep_owed < kShortestSleep) return;
  const double begin = steady_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(sleep_owed));
  sleep_owed -= steady_seconds() - begin;
}

/// In virtual time what the instruction computes.
void Worker::State::pass(const Program& program, const Instruction& i, const StepInput& input) {
  const double seconds = options.times->seconds(rank, program, i, input.batch.samples);
  if (seconds <= 0) return;
  VirtualTime& time = *communicator->virtual_time();
  time.advance_to(time.now() + seconds * (is_slowed(description_of(i.code).event) ? input.slowness : 1));
}

/// What went on beside the instructions that are through; returns its bytes.
int64_t Worker::State::record_transfers(const Program& program, bool trace) {
  int64_t bytes = 0;
  for (const Transfer& t : replicas->take_transfers()) {
    bytes += t.bytes;
    if (!trace) continue;
    const std::string name = program.describe({OpCode::reduce_gradients, t.bucket}, model);
    outcome.events.push_back({rank, EventKind::reduce, name, -1, t.begin, t.end, t.bytes});
  }
  return bytes;
}

StepOutcome Worker::State::run_list(Prepared& prepared, int64_t number, bool trace) {
  try {
    return run_instructions(prepared, number, trace);
  } catch (const std::exception& error) {
    // what was started beside would wait for others that wait for this worker, and its end waits for that: aborting comes first
    if (communicator->moves_beside_computing()) communicator->abort(fmt::format("rank {} failed: {}", rank, first_line(error)));
    // where it failed itself this thread has only met the abort
    if (const std::exception_ptr first = replicas->failure()) std::rethrow_exception(first);
    throw;
  }
}

/// One round through the instruction list: the work on batch `number` and, at their lags, on those before it.
StepOutcome Worker::State::run_instructions(Prepared& prepared, int64_t number, bool trace) {
  const Program& program = *prepared.program;
  const int64_t first = in_flight.empty() ? number : in_flight.front().number;
  const auto in_flight_end = first + int64_t(in_flight.size());
  // counts of sub-groups are included
  auto bytes = [&] { return communicator->count().bytes_sent + replicas->counts().bytes_sent; };
  const int64_t bytes_before = bytes();
  const double hidden_before = replicas->counts().hidden_seconds;
  outcome = {};
  outcome.begin = communicator->now();
  double clock = outcome.begin;
  const std::vector<Instruction>& list = program.instructions(rank);
  for (size_t k = 0; k < list.size(); ++k) {
    const Instruction& i = list[k];
    const int64_t batch = number - i.lag;
    if (batch < first || batch >= in_flight_end) continue;  // the pipeline is filling or running empty
    if (!whole_steps.updates) stop_if_aborted();  // updates that all agreed on are made
    if (recorder) recorder->begin_instruction(prepared.texts[k]);
    const double waits_before = waits(), exchange_before = replicas->counts().exchange_seconds;
    const int64_t bytes_at = trace ? bytes() : 0;
    BatchInFlight& entry = in_flight[size_t(batch - first)];
    current = &entry;
    // layers compute, then talk, as updates of divided weights do; other updates wait for their gradient's sum first
    const bool passes = options.times != nullptr;
    const bool after = i.code == OpCode::optimizer_step && program.optimizer_sharding == OptimizerSharding::none;
    if (passes && !after) pass(program, i, entry.input);
    execute(prepared, i, entry);
    if (passes && after) pass(program, i, entry.input);
    const double waited = waits() - waits_before, exchanged = replicas->counts().exchange_seconds - exchange_before;
    const EventKind kind = description_of(i.code).event;
    sleep_for(kind, communicator->now() - clock - waited - exchanged, entry.input.slowness);
    const double end = communicator->now();
    const double busy = end - clock - waited - exchanged;
    (computes(i.code, program) ? outcome.compute_seconds : outcome.exposed_seconds) += busy;
    outcome.exposed_seconds += exchanged;
    outcome.waiting_seconds += waited;
    const int64_t beside = record_transfers(program, trace);
    if (trace) record(program, i, kind, clock, end, waited, bytes() - bytes_at - beside);
    clock = end;
    if (outcome.stopped || outcome.held) break;
  }
  if (recorder) recorder->begin_instruction(kAllDone);
  outcome.end = clock;
  outcome.bytes_sent = bytes() - bytes_before;
  outcome.hidden_seconds = replicas->counts().hidden_seconds - hidden_before;
  while (!in_flight.empty() && in_flight.front().number <= number - program.greatest_lag) in_flight.pop_front();
  return std::move(outcome);
}

Worker::Worker(int rank, const Model& model, const Program* training, const Program* evaluation, ParameterStore& store,
               LocalWorld& world, const WorkerOptions& options)
    : state_(std::make_unique<State>(rank, model, store.precision(), world.communicator(rank), options)) {
  const Program& program = training ? *training : *evaluation;
  if (program.private_replicas) {
    state_->replicas = private_replicas(rank, program, store.precision(), *state_->communicator, options.optimizer);
    store.attach(rank, state_->replicas.get());
    state_->detach = [&store, rank] { store.attach(rank, nullptr); };
  } else {
    state_->replicas = shared_replicas(rank, program, store, world, options.optimizer);
  }
  state_->begin(training, evaluation);
}

Worker::Worker(int rank, const Model& model, const Program* training, const Program* evaluation, Precision precision,
               std::unique_ptr<Communicator> world, const WorkerOptions& options)
    : state_(std::make_unique<State>(rank, model, precision, std::move(world), options)) {
  const Program& program = training ? *training : *evaluation;
  check_internal(program.private_replicas, "workers that share no memory have replicas of their own");
  state_->replicas = private_replicas(rank, program, precision, *state_->communicator, options.optimizer);
  state_->begin(training, evaluation);
}

void Worker::State::begin(const Program* training_program, const Program* evaluation_program) {
  c10::InferenceMode inference;
  if (training_program) prepare(*training_program, training);
  if (evaluation_program) prepare(*evaluation_program, evaluation);
  training_context = {training_program, replicas.get(), &outcome.metrics};
  evaluation_context = {evaluation_program, replicas.get(), &outcome.metrics};
  check_internal(!training_program || !options.optimizer.is_layerwise() || training_program->keeps_gradients,
                 "a program for a layer-wise optimizer takes norms");
  check_internal(!training_program || !options.gradient_norms || obstacle_to_gradient_norms(*training_program).empty(),
                 "norms of gradients are measured where pieces of them can be told apart");
  if (options.resumed) return resume(training_program ? *training_program : *evaluation_program, *options.resumed);
  replicas->initialize(options.seed);
  communicator->barrier();
  if (!model.initial_values()) return;
  give_initial_values(training_program ? *training_program : *evaluation_program, rank, model.initial_values()->tensors, *replicas);
  communicator->barrier();
}

Worker::~Worker() {
  if (state_ && state_->detach) state_->detach();
}

StepOutcome Worker::train(const StepInput& input) {
  check_internal(state_->training.program != nullptr, "a worker runs only programs that it was given");
  check_internal(!state_->training.program->agrees || state_->options.agreement, "workers of a program that agrees have an agreement");
  c10::InferenceMode inference;
  state_->show_average(false);
  state_->is_training = true;
  state_->carried_rows = input.batch.samples;
  state_->begin_batch(state_->training, input, state_->batches);
  if (state_->recorder) state_->recorder->begin_step(input.step + 1);
  if (state_->options.keeps_whole_steps) state_->begin_whole_step();
  StepOutcome step = state_->run_list(state_->training, state_->batches++, input.trace);
  if (step.stopped || step.held) --state_->batches;  // the batch was not trained on
  state_->average_buffers();
  if (state_->options.keeps_whole_steps) state_->end_whole_step();
  return step;
}

StepOutcome Worker::drain() {
  c10::InferenceMode inference;
  State& s = *state_;
  StepOutcome sum;
  s.is_training = true;
  for (int lag = 1; s.training.program && lag <= s.training.program->greatest_lag && !s.in_flight.empty(); ++lag) {
    StepOutcome part = s.run_list(s.training, s.batches - 1 + lag, false);
    if (lag == 1) sum.begin = part.begin;
    sum.end = part.end;
    sum.compute_seconds += part.compute_seconds;
    sum.exposed_seconds += part.exposed_seconds;
    sum.waiting_seconds += part.waiting_seconds;
    sum.bytes_sent += part.bytes_sent;
  }
  s.first_batch = s.batches;
  return sum;
}

StepOutcome Worker::evaluate(const StepInput& input) {
  check_internal(state_->evaluation.program != nullptr, "a worker runs only programs that it was given");
  check_internal(state_->in_flight.empty(), "the pipeline is empty when a worker evaluates");
  c10::InferenceMode inference;
  state_->show_average(true);
  state_->is_training = false;
  state_->begin_batch(state_->evaluation, input, state_->batches);
  return state_->run_list(state_->evaluation, state_->batches, input.trace);
}

void Worker::settle(bool averaged) {
  c10::InferenceMode inference;
  state_->show_average(averaged);
  state_->replicas->settle();
}

void Worker::barrier() { state_->communicator->barrier(); }

Communicator& Worker::world() { return *state_->communicator; }

Replicas& Worker::replicas() { return *state_->replicas; }

const std::vector<at::Tensor>* Worker::buffers(OpId op) const {
  const auto& bindings = state_->training.bindings;
  return op < OpId(bindings.size()) && bindings[size_t(op)].op ? &bindings[size_t(op)].buffers : nullptr;
}

}  // namespace trireme
