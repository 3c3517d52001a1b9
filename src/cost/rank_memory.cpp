#include "cost/rank_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/error.h"

namespace trireme {

RankMemory::RankMemory(ProgramSizes& all, int rank)
    : all_(all),
      program_(all.program()),
      sizes_(all, rank),
      buffers_(hold_buffers()),
      replicas_(sizes_, tally_),
      uses_(count_reads(program_, rank)),
      loaded_(loaded_values(program_, rank)) {
  const auto& arrivals = all_.options().arrivals;
  if (arrivals.empty()) return;
  for (const MessageArrival& arrival : arrivals[size_t(rank)]) arrivals_.emplace(arrival.position, arrival);
}

// -- before the first step

std::vector<Held> RankMemory::hold_buffers() {
  std::vector<Held> held;
  if (all_.options().library_memory > 0)
    held.push_back(allocate(tally_, MemoryCategory::buffers, all_.options().library_memory));
  if (all_.options().copies_ahead) held.push_back(allocate(tally_, MemoryCategory::buffers, copied_ahead()));
  if (const int64_t posted = sizes_.posted(); posted > 0) held.push_back(activations(posted));
  const bool averages = program_.training && all_.options().optimizer.ema > 0;
  for (const Op& op : program_.ops) {
    if (!op.has_buffers || !is_here(op)) continue;
    const int64_t bytes = sizes_.buffer_bytes(op);
    held.push_back(allocate(tally_, MemoryCategory::buffers, bytes));
    if (averages) held.push_back(allocate(tally_, MemoryCategory::optimizer, bytes));
  }
  return held;
}

/// Returns the bytes of inputs that are copied ahead when a batch begins: all micro-batches of the next batch, and
/// those of the current batch except the first.
int64_t RankMemory::copied_ahead() const {
  int64_t batch = 0, first = 0;
  for (const auto& [stage, values] : loaded_values(program_, sizes_.rank()))
    for (int k = 0; k < program_.micro_batches; ++k) {
      std::set<std::pair<int64_t, int64_t>> ranges;
      for (const ValueId id : values) {
        const Value& value = program_.values[size_t(id)];
        const Range range = value.layout.box_of(sizes_.rank(), all_.global_shape(value.node, all_.samples(k)))[0];
        if (!ranges.insert({range.begin, range.end}).second) continue;  // the inputs of a range are loaded together
        for (NodeId input = 0; input < all_.model().input_count(); ++input) {
          const int64_t bytes = element_count(all_.global_shape(input, range.size())) * all_.loaded_bytes(input);
          batch += bytes;
          if (k == 0) first += bytes;
        }
      }
    }
  return 2 * batch - first;
}

bool RankMemory::carries_states() const {
  return std::any_of(program_.ops.begin(), program_.ops.end(),
                     [&](const Op& op) { return is_here(op) && !all_.model().node(op.node).layer->states().empty(); });
}

// -- steps

/// All permanent tensors exist from the beginning. Steps are therefore equal, except for states and batches in flight.
MemoryUse RankMemory::run() {
  const int steps = program_.greatest_lag + 1 + (carries_states() || !program_.flushes);
  execute(program_, *this, {.batches = steps, .steps = steps, .ranks = {sizes_.rank()}});
  end_step();
  return tally_.use();
}

void RankMemory::begin_batch(int number) {
  BatchInFlight& batch = in_flight_.emplace_back();
  batch.number = number;
  batch.micro_batches.resize(size_t(program_.micro_batches));
  for (int k = 0; k < program_.micro_batches; ++k) {
    MicroBatch& part = batch.micro_batches[size_t(k)];
    part.index = k;
    part.uses_left = uses_[size_t(k)];
  }
}

void RankMemory::end_step() {
  if (program_.flushes) {
    under_way_.clear();
    exchanged_.reset();
  }
  while (!in_flight_.empty() && in_flight_.front().number <= step_ - program_.greatest_lag) in_flight_.pop_front();
}

void RankMemory::begin(std::span<const Execution> together, Demand&) {
  const Execution& e = together.front();
  while (step_ < e.step) {
    if (step_ >= 0) end_step();
    begin_batch(++step_);
  }
  note_arrivals(e.index);
  const Instruction& i = program_.instructions(e.rank)[size_t(e.index)];
  const int batch = e.step - i.lag;
  BatchInFlight& entry = in_flight_[size_t(batch - in_flight_.front().number)];
  apply(i, i.micro_batch >= 0 ? &entry.micro_batches[size_t(i.micro_batch)] : nullptr);
  const RedistributionRole role = description_of(i.code).role;
  if (role == RedistributionRole::receive) note_progress(i, batch);
  if (role == RedistributionRole::send) note_message(i, batch);
}

void RankMemory::apply(const Instruction& i, MicroBatch* batch) {
  switch (description_of(i.code).memory) {
    case MemoryEffect::nothing: return;
    case MemoryEffect::load_inputs: return load(i.index, *batch);
    case MemoryEffect::keep_activations: return forward(i, *batch);
    case MemoryEffect::restore_activations: return recompute(i.index, *batch);
    case MemoryEffect::free_activations: return backward(i, *batch);
    case MemoryEffect::free_deferred: return backward_weight(i.index, *batch);
    case MemoryEffect::redistribute_value: return redistribute(i, *batch);
    case MemoryEffect::prefetch_weights: return replicas_.prefetch(i.index);
    case MemoryEffect::gather_weights: return replicas_.gather(i.index);
    case MemoryEffect::release_weights: return replicas_.release(i.index);
    case MemoryEffect::sum_gradients: return replicas_.reduce(i.index, i.last);
    case MemoryEffect::free_sum: return replicas_.update(i.index);
  }
}

/// All inputs of a range of samples are loaded together, even if this stage reads only some of them.
void RankMemory::load(int stage, MicroBatch& batch) {
  std::vector<std::pair<Range, std::vector<Held>>> fetched;
  const int64_t samples = all_.samples(batch.index);
  for (ValueId id : loaded_.at(stage)) {
    const Value& value = program_.values[size_t(id)];
    const Range range = value.layout.box_of(sizes_.rank(), all_.global_shape(value.node, samples))[0];
    auto it = std::find_if(fetched.begin(), fetched.end(), [&](const auto& f) { return f.first == range; });
    if (it == fetched.end()) {
      std::vector<Held> inputs;
      for (NodeId input = 0; input < all_.model().input_count(); ++input)
        inputs.push_back(activations(element_count(all_.global_shape(input, range.size())) * all_.loaded_bytes(input)));
      fetched.emplace_back(range, std::move(inputs));
      it = std::prev(fetched.end());
    }
    const bool converted = all_.element_bytes(value.node) != all_.loaded_bytes(value.node);
    batch.values[id] =
        converted ? activations(sizes_.bytes(value.layout, value.node, batch.index)) : it->second[size_t(value.node)];
  }
}

void RankMemory::use_up(ValueId value, MicroBatch& batch) {
  const ValueId source = program_.forward_alias[size_t(value)];
  if (--batch.uses_left[size_t(source)] == 0) batch.values[source].reset();
}

void RankMemory::carry_states(OpId id, MicroBatch& batch, Call& call, bool recomputing) {
  const Op& op = program_.ops[size_t(id)];
  if (all_.model().node(op.node).layer->states().empty()) return;
  if (recomputing) {
    call.kept.push_back(batch.states[id]);
    return;
  }
  const int64_t bytes = sizes_.state_bytes(id, batch.index);
  Held& carried = states_[{op.node, batch.index}];
  if (!carried) carried = activations(bytes);
  batch.states[id] = carried;
  call.kept.push_back(carried);
  carried = activations(bytes);
}

void RankMemory::run_layer(OpId id, MicroBatch& batch, Run run) {
  const Op& op = program_.ops[size_t(id)];
  const LayerMemory& memory = sizes_.layer(id, batch.index);
  Call& call = batch.calls[id].emplace();
  carry_states(id, batch, call, run != Run::first);
  std::vector<Held> inputs;
  for (ValueId v : op.inputs) {
    inputs.push_back(batch.values[program_.forward_alias[size_t(v)]]);
    check_internal(inputs.back() != nullptr, "a layer's inputs exist when it runs");
  }
  const int shared = memory.output_shares_input;
  Held output;
  if (run != Run::restoring) output = shared >= 0 ? inputs.at(size_t(shared)) : activations(memory.output);
  call.saved = activations(memory.saved);
  for (size_t i = 0; i < std::min(inputs.size(), memory.keeps_input.size()); ++i)
    if (memory.keeps_input[i]) call.kept.push_back(inputs[i]);
  if (memory.keeps_output) call.kept.push_back(output);
  if (run != Run::restoring) tally_.pass(MemoryCategory::activations, memory.forward_workspace);
  inputs.clear();
  if (op.communicates) exchanged_.reset();
  for (ValueId v : op.inputs) use_up(v, batch);
  if (batch.uses_left[size_t(op.output)] > 0) batch.values[op.output] = std::move(output);
}

void RankMemory::forward(const Instruction& i, MicroBatch& batch) {
  for (OpId id : program_.segments[size_t(i.index)].ops) {
    run_layer(id, batch, Run::first);
    const bool differentiated = program_.values[size_t(program_.ops[size_t(id)].output)].needs_gradient;
    if (!program_.training || !i.keeps || !differentiated) batch.calls[id].reset();
    if (!program_.training || i.keeps) batch.states.erase(id);
  }
}

void RankMemory::recompute(SegmentId segment, MicroBatch& batch) {
  const auto& ops = program_.segments[size_t(segment)].ops;
  if (const RecomputedRun* run = program_.run_begun_by(segment)) {
    for (ValueId value : run->made) batch.uses_left[size_t(value)] = 0;
    for (ValueId value : run->inside) ++batch.uses_left[size_t(value)];
  }
  for (OpId id : ops) {
    run_layer(id, batch, program_.is_restored(segment, id) ? Run::restoring : Run::again);
    batch.states.erase(id);
  }
}

void RankMemory::add_gradient(ValueId value, const Held& gradient, MicroBatch& batch) {
  Held& sum = batch.gradients[program_.backward_alias[size_t(value)]];
  sum = sum ? activations(sizes_.gradient_bytes(value, batch.index)) : gradient;
}

/// A gradient without memory of its own shares that of the gradient before it, or of the output's gradient.
std::vector<Held> RankMemory::input_gradients(OpId id, const MicroBatch& batch, const Held& gradient) {
  const Op& op = program_.ops[size_t(id)];
  const LayerMemory& memory = sizes_.layer(id, batch.index);
  std::vector<Held> gradients;
  Held last = gradient;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const int64_t bytes = i < memory.input_gradients.size() ? memory.input_gradients[i] : 0;
    if (bytes > 0) last = activations(bytes);
    gradients.push_back(last);
  }
  return gradients;
}

void RankMemory::backward_op(OpId id, MicroBatch& batch, bool defer_parameters) {
  const Op& op = program_.ops[size_t(id)];
  auto& call = batch.calls[id];
  if (!call) return;
  const Value& output = program_.values[size_t(op.output)];
  const Held gradient = id == program_.loss ? activations(sizes_.bytes(output.layout, output.node, batch.index))
                                            : std::exchange(batch.gradients[op.output], nullptr);
  if (gradient) {
    const bool idle = sizes_.is_idle(id, batch.index), defers = defer_parameters && op.splits_backward && !idle;
    const LayerMemory& memory = sizes_.layer(id, batch.index);
    const std::vector<Held> gradients = input_gradients(id, batch, gradient);
    const int64_t workspace =
        defers ? memory.input_workspace.value_or(memory.backward_workspace) : memory.backward_workspace;
    tally_.pass(MemoryCategory::activations, workspace);
    if (!idle && !defers) add_parameters(id, batch, false);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (program_.values[size_t(op.inputs[i])].needs_gradient) add_gradient(op.inputs[i], gradients[i], batch);
    if (defers) {  // the call's tensors remain until backward_weight
      if (memory.deferred) {
        call->saved.reset();
        call->saved = activations(*memory.deferred);
      }
      if (memory.defers_gradient) call->kept.push_back(gradient);
      return;
    }
  }
  call.reset();
}

/// `apart`: as the second part of a split backward.
void RankMemory::add_parameters(OpId id, const MicroBatch& batch, bool apart) {
  const Op& op = program_.ops[size_t(id)];
  const LayerMemory& memory = sizes_.layer(id, batch.index);
  for (size_t p = 0; p < op.parameters.size(); ++p) replicas_.write_gradient(op, p);
  const std::optional<int64_t> workspace = apart ? memory.weight_workspace : memory.parameter_workspace;
  tally_.pass(MemoryCategory::activations, workspace.value_or(memory.backward_workspace));
}

void RankMemory::backward(const Instruction& i, MicroBatch& batch) {
  const auto& ops = program_.segments[size_t(i.index)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id)
    backward_op(*id, batch, description_of(i.code).pass == SegmentPass::backward_input);
}

void RankMemory::backward_weight(SegmentId segment, MicroBatch& batch) {
  const auto& ops = program_.segments[size_t(segment)].ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id) {
    auto& call = batch.calls[*id];
    if (!call) continue;
    add_parameters(*id, batch, true);
    call.reset();
  }
}

void RankMemory::redistribute(const Instruction& i, MicroBatch& batch) {
  const Redistribution& redistribution = program_.redistributions[size_t(i.index)];
  const RedistributionEnds ends = ends_of(redistribution, program_, i.adjoint);
  Held local;
  sent_.reset();
  if (sizes_.holds(ends.from)) {
    Held& source = i.adjoint ? batch.gradients[redistribution.to] : batch.values[redistribution.from];
    local = source;
    if (i.adjoint) source.reset();
    if (!local)
      local = activations(sizes_.bytes(ends.from, program_.values[size_t(redistribution.from)].node, batch.index));
  }
  const ArrivingValue& arrival = sizes_.arrival(i.index, i.adjoint, batch.index);
  Held result;
  if (arrival.kind == ArrivingValue::Kind::same) result = local;
  if (arrival.kind == ArrivingValue::Kind::made) {
    const Held sum = arrival.adding > 0 ? activations(arrival.adding) : nullptr;
    Held message = std::exchange(batch.arrived[{i.index, i.adjoint}], nullptr);
    if (!message && arrival.received > 0) message = received_parts(arrival);
    result = message && arrival.received == 0 ? message : activations(arrival.bytes);
  }
  const RedistributionRole role = description_of(i.code).role;
  if (role == RedistributionRole::send) sent_ = local;
  if (role == RedistributionRole::exchange && arrival.exchanges)
    exchanged_ = arrival.reduces || receivers() == Receivers::at_once ? nullptr : local;
  if (!i.adjoint && local) use_up(redistribution.from, batch);
  if (!result) return;
  if (i.adjoint) add_gradient(redistribution.from, result, batch);
  else batch.values[redistribution.to] = std::move(result);
}

/// Counts the messages that arrive before this instruction of the list.
void RankMemory::note_arrivals(int position) {
  const auto [first, last] = arrivals_.equal_range(position);
  for (auto it = first; it != last; ++it) {
    const MessageArrival& a = it->second;
    const int index = step_ - a.lag - in_flight_.front().number;
    if (index < 0 || index >= int(in_flight_.size())) continue;  // there was no such batch
    const ArrivingValue& arrival = sizes_.arrival(a.redistribution, a.adjoint, a.micro_batch);
    if (arrival.kind != ArrivingValue::Kind::made) continue;
    MicroBatch& part = in_flight_[size_t(index)].micro_batches[size_t(a.micro_batch)];
    part.arrived[{a.redistribution, a.adjoint}] = activations(arrival.received > 0 ? arrival.received : arrival.bytes);
  }
}

/// Retains a sent message until its receivers have received it.
void RankMemory::note_message(const Instruction& i, int batch) {
  const Held message = std::exchange(sent_, nullptr);
  if (receivers() == Receivers::at_once || !message) return;
  const int receiver = ends_of(program_.redistributions[size_t(i.index)], program_, i.adjoint).to.mesh.workers.front();
  if (receivers() == Receivers::one_late)
    std::erase_if(under_way_, [&](const Message& m) { return m.redistribution == i.index && m.adjoint == i.adjoint; });
  under_way_.push_back(
      {i.index, i.adjoint, receiver, all_.moment_of(RedistributionRole::receive, i, receiver, batch), message});
}

/// Releases the messages that the sender of this one has received before it sent.
void RankMemory::note_progress(const Instruction& i, int batch) {
  const int sender = ends_of(program_.redistributions[size_t(i.index)], program_, i.adjoint).from.mesh.workers.front();
  const Moment sent = all_.moment_of(RedistributionRole::send, i, sender, batch);
  std::erase_if(under_way_, [&](const Message& m) { return m.receiver == sender && m.taken < sent; });
}

}  // namespace trireme
