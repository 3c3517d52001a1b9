#include "runtime/worker.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/memory.h"
#include "runtime/worker_state.h"

namespace trireme {
namespace {

constexpr double kShownWaitSeconds = 5e-6;  // shorter waits get no event of their own

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

EventKind event_kind(OpCode code) {
  switch (code) {
    case OpCode::load_batch: return EventKind::load;
    case OpCode::forward: return EventKind::forward;
    case OpCode::backward: return EventKind::backward;
    case OpCode::redistribute:
    case OpCode::synchronize_buffers: return EventKind::redistribute;
    case OpCode::send: return EventKind::send;
    case OpCode::receive: return EventKind::receive;
    case OpCode::reduce_gradients:
    case OpCode::clip_gradients: return EventKind::reduce;
    case OpCode::optimizer_step: return EventKind::update;
  }
  return EventKind::other;
}

bool computes(EventKind kind) {
  return kind == EventKind::load || kind == EventKind::forward || kind == EventKind::backward || kind == EventKind::update ||
         kind == EventKind::reduce;
}

}  // namespace

Worker::State::State(int rank, const Model& model, ParameterStore& store, LocalWorld& world, const WorkerOptions& options)
    : rank(rank), model(model), store(store), world(world), options(options), communicator(world.communicator(rank)), redistributor(*communicator, rank) {}

Communicator* Worker::State::group(const std::vector<int>& ranks) {
  auto it = groups.find(ranks);
  if (it == groups.end()) it = groups.emplace(ranks, communicator->group(ranks)).first;
  return it->second.get();
}

void Worker::State::allocate_gradients(const Program& program) {
  MemoryScope scope(MemoryCategory::gradients);
  gradient_flats.resize(program.buckets.size());
  written.resize(program.buckets.size());
  optimizer_states.resize(program.buckets.size());
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = program.buckets[b];
    written[b] = std::make_unique<bool[]>(bucket.shards.size());
    auto it = std::find(bucket.contributors.begin(), bucket.contributors.end(), rank);
    if (it == bucket.contributors.end()) continue;
    gradient_flats[b] = at::zeros({bucket.elements}, store.bucket(BucketId(b)).master.options());
    store.bucket(BucketId(b)).gradients[size_t(it - bucket.contributors.begin())] = gradient_flats[b];
  }
}

void Worker::State::bind(const Program& program, OpId id, OpBinding& binding) {
  const Op& op = program.ops[size_t(id)];
  binding.op = &op;
  binding.layer = model.node(op.node).layer.get();
  binding.tensor_index = op.mesh.tensor_index(rank);
  binding.data_group = group(op.mesh.data_group(rank));
  binding.tensor_group = group(op.mesh.tensor_group(rank));
  for (ValueId input : op.inputs) binding.input_gradient_wanted.push_back(program.values[size_t(input)].needs_gradient);
  for (size_t p = 0; p < op.parameters.size(); ++p) {
    const Placement& placement = op.option.parameters[p];
    Box box = Layout{op.mesh, Placement::replicate(), placement}.box_of(rank, program.parameters[size_t(op.parameters[p])].spec.shape);
    // counted by every worker unless all workers of the tensor axis compute the same gradient
    bool counts = !op.option.parameter_gradients[p].is_replicate() || binding.tensor_index == 0;
    for (size_t b = 0; b < program.buckets.size(); ++b)
      for (size_t s = 0; s < program.buckets[b].shards.size(); ++s) {
        const ParameterShard& shard = program.buckets[b].shards[s];
        if (shard.parameter != op.parameters[p] || shard.box != box) continue;
        binding.parameters.push_back(ParameterStore::view_of(store.bucket(BucketId(b)).compute, shard));
        bool contributes = program.training && counts && gradient_flats[b].defined();
        binding.gradients.push_back(contributes ? ParameterStore::view_of(gradient_flats[b], shard) : at::Tensor());
        binding.gradient_written.push_back(program.training ? &written[b][s] : nullptr);
      }
  }
  check_internal(binding.parameters.size() == op.parameters.size(), "every parameter shard of a layer lies in one bucket");
  auto specs = binding.layer->buffers();
  auto [it, fresh] = buffers.try_emplace(op.node);
  for (size_t i = 0; fresh && i < specs.size(); ++i) {
    MemoryScope scope(MemoryCategory::buffers);
    Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank, specs[i].shape);
    it->second.push_back(at::full(shape_of(box), specs[i].initial, at::TensorOptions().dtype(master_type(store.precision()))));
  }
  binding.buffers = it->second;
}

void Worker::State::prepare(const Program& program, Prepared& prepared) {
  prepared.program = &program;
  const size_t values = program.values.size();
  prepared.forward_alias.resize(values);
  prepared.backward_alias.resize(values);
  for (size_t v = 0; v < values; ++v) prepared.forward_alias[v] = prepared.backward_alias[v] = ValueId(v);
  for (const Move& move : program.moves) {
    if (!move.forward_moves) prepared.forward_alias[size_t(move.to)] = move.from;
    if (!move.backward_moves) prepared.backward_alias[size_t(move.to)] = move.from;
  }
  prepared.uses.assign(values, 0);
  prepared.bindings.resize(program.ops.size());
  for (OpId id = 0; id < OpId(program.ops.size()); ++id) {
    const Op& op = program.ops[size_t(id)];
    if (op.mesh.index_of(rank) < 0) continue;
    bind(program, id, prepared.bindings[size_t(id)]);
    for (ValueId input : op.inputs) {
      ++prepared.uses[size_t(prepared.forward_alias[size_t(input)])];
      if (program.values[size_t(input)].loaded &&
          std::find(prepared.loaded.begin(), prepared.loaded.end(), input) == prepared.loaded.end())
        prepared.loaded.push_back(input);
    }
  }
  for (const Move& move : program.moves)
    if (move.forward_moves && program.values[size_t(move.from)].layout.mesh.index_of(rank) >= 0) ++prepared.uses[size_t(move.from)];
}

void Worker::State::begin_micro_batches(const Prepared& prepared) {
  const Program& program = *prepared.program;
  micro_batches.clear();
  micro_batches.resize(size_t(program.micro_batches));
  for (int k = 0; k < program.micro_batches; ++k) {
    MicroBatch& batch = micro_batches[size_t(k)];
    batch.samples = share_of(input->batch.samples, program.micro_batches, k);
    batch.values.resize(program.values.size());
    batch.gradients.resize(program.values.size());
    batch.uses_left = prepared.uses;
    batch.calls.resize(program.ops.size());
  }
}

void Worker::State::stop_if_aborted() const {
  if (world.aborted()) fail_run({fmt::format("worker {}", rank), "stopped", world.abort_reason(), ""});
}

void Worker::State::execute(Prepared& prepared, const Instruction& i) {
  switch (i.code) {
    case OpCode::load_batch: return load(prepared, i.micro_batch);
    case OpCode::forward: return forward(prepared, i);
    case OpCode::backward: return backward(prepared, i);
    case OpCode::redistribute:
    case OpCode::send:
    case OpCode::receive: return move(prepared, i);
    case OpCode::reduce_gradients: return reduce(prepared, i.index);
    case OpCode::clip_gradients: return clip(prepared);
    case OpCode::optimizer_step: return update(prepared, i.index);
    case OpCode::synchronize_buffers: return synchronize_buffers(prepared, i.index);
  }
}

void Worker::State::record(const Instruction& i, EventKind kind, double begin, double end, double waited, int64_t bytes) {
  const std::string name = (is_training ? training : evaluation).program->describe(i, model);
  // what waits for others does so first; layers that talk wait in between and are shown as one piece
  const bool waits_first = kind != EventKind::forward && kind != EventKind::backward && waited > kShownWaitSeconds;
  if (waits_first) outcome.events.push_back({rank, EventKind::wait, "wait: " + name, i.micro_batch, begin, begin + waited, 0});
  outcome.events.push_back({rank, kind, name, i.micro_batch, waits_first ? begin + waited : begin, end, bytes});
}

StepOutcome Worker::State::run(Prepared& prepared, const StepInput& step_input, bool training_run) {
  check_internal(prepared.program != nullptr, "a worker runs only programs that it was given");
  c10::InferenceMode inference;
  const Program& program = *prepared.program;
  input = &step_input;
  is_training = training_run;
  clip_scale = 1;
  outcome = {};
  begin_micro_batches(prepared);
  if (training_run)
    for (size_t b = 0; b < written.size(); ++b) std::fill_n(written[b].get(), program.buckets[b].shards.size(), false);

  double waited_before = 0;
  // counts of sub-groups are included
  auto waits = [this] { return communicator->count().wait_seconds + bucket_wait; };
  const int64_t bytes_before = communicator->count().bytes_sent;
  auto bytes = [&] { return outcome.bytes_sent + communicator->count().bytes_sent - bytes_before; };
  outcome.begin = now();
  double clock = outcome.begin;
  for (const Instruction& i : program.ranks[size_t(rank)]) {
    stop_if_aborted();
    waited_before = waits();
    const int64_t bytes_at = step_input.trace ? bytes() : 0;
    execute(prepared, i);
    const double end = now(), waited = waits() - waited_before;
    const EventKind kind = event_kind(i.code);
    (computes(kind) ? outcome.compute_seconds : outcome.exposed_seconds) += end - clock - waited;
    outcome.waiting_seconds += waited;
    if (step_input.trace) record(i, kind, clock, end, waited, bytes() - bytes_at);
    clock = end;
  }
  outcome.end = clock;
  outcome.bytes_sent = bytes();
  micro_batches.clear();
  if (training_run) ++steps_done;
  return std::move(outcome);
}

Worker::Worker(int rank, const Model& model, const Program* training, const Program* evaluation, ParameterStore& store,
               LocalWorld& world, const WorkerOptions& options)
    : state_(std::make_unique<State>(rank, model, store, world, options)) {
  c10::InferenceMode inference;
  if (training) {
    state_->allocate_gradients(*training);
    state_->prepare(*training, state_->training);
  }
  if (evaluation) state_->prepare(*evaluation, state_->evaluation);
  store.initialize(rank, options.seed);
  state_->communicator->barrier();
}

Worker::~Worker() = default;

StepOutcome Worker::train(const StepInput& input) { return state_->run(state_->training, input, true); }

StepOutcome Worker::evaluate(const StepInput& input) { return state_->run(state_->evaluation, input, false); }

void Worker::settle() {
  if (!state_->training.program) return;
  for (SegmentId s = 0; s < SegmentId(state_->training.program->segments.size()); ++s)
    state_->wait_for_weights(state_->training, s);
}

void Worker::barrier() { state_->communicator->barrier(); }

const std::vector<at::Tensor>* Worker::buffers(OpId op) const {
  const auto& bindings = state_->training.bindings;
  return op < OpId(bindings.size()) && bindings[size_t(op)].op ? &bindings[size_t(op)].buffers : nullptr;
}

}  // namespace trireme
