#include "cost/memory_sizes.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "comm/formulas.h"
#include "program/op_codes.h"
#include "tensor/all_reduce_group.h"
#include "tensor/transfers_to.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kIndexBytes = 8;
constexpr int64_t kNarrowBytes = 2;  // bytes per element of formats that are summed in float

int64_t elements_of(const Box& box) {
  int64_t elements = 1;
  for (const Range& range : box) elements *= range.size();
  return elements;
}

/// True if the part `box` of a tensor that covers `outer` is contiguous in memory. Tensors with 4 dims are in
/// channels_last order.
bool is_one_stretch(const Box& box, const Box& outer) {
  constexpr std::array<size_t, 4> kChannelsLast{0, 2, 3, 1};
  bool cut = false;
  for (size_t i = box.size(); i-- > 0;) {  // from the innermost dim
    const size_t d = box.size() == kChannelsLast.size() ? kChannelsLast[i] : i;
    if (cut && box[d].size() > 1) return false;
    cut = cut || box[d].size() < outer[d].size();
  }
  return true;
}

c10::ScalarType input_type(const MemoryOptions& options, NodeId input) {
  if (!options.input_types.empty()) return options.input_types.at(size_t(input));
  return input == 0 ? c10::ScalarType::Float : c10::ScalarType::Long;
}

}  // namespace

ProgramSizes::ProgramSizes(const Program& program, const Model& model, const LayerCosts& layers,
                           const MemoryOptions& options)
    : program_(program),
      model_(model),
      layers_(layers),
      options_(options),
      master_bytes_(int64_t(c10::elementSize(master_type(options.precision)))),
      compute_bytes_(int64_t(c10::elementSize(compute_type(options.precision)))),
      places_(program.parameters.size()) {
  for (int k = 0; k < program.micro_batches; ++k)
    samples_.push_back(share_of(options.batch, program.micro_batches, k).size());
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    for (int s = 0; s < int(program.buckets[size_t(b)].shards.size()); ++s)
      places_[size_t(program.buckets[size_t(b)].shards[size_t(s)].parameter)].push_back({b, s});
  find_element_bytes();
}

int64_t ProgramSizes::loaded_bytes(NodeId input) const {
  return int64_t(c10::elementSize(input_type(options_, input)));
}

/// Floating-point inputs are converted to the compute type when they are loaded. Losses and the targets that they
/// compare with are not.
void ProgramSizes::find_element_bytes() {
  std::vector<bool> of_integers;
  for (NodeId id = 0; id < NodeId(model_.nodes().size()); ++id) {
    const Node& node = model_.node(id);
    if (!node.layer) {
      of_integers.push_back(!c10::isFloatingType(input_type(options_, id)));
      element_bytes_.push_back(of_integers.back() ? loaded_bytes(id) : id == 0 ? compute_bytes_ : master_bytes_);
      continue;
    }
    const auto is_of_integers = [&](NodeId input) { return bool(of_integers[size_t(input)]); };
    const bool passes_integers = node.layer->parameters().empty() && !node.inputs.empty() &&
                                 std::all_of(node.inputs.begin(), node.inputs.end(), is_of_integers);
    of_integers.push_back(passes_integers || !node.layer->passes_gradients());
    const bool is_loss = id == model_.loss() || node.sample_shape.empty();
    element_bytes_.push_back(of_integers.back() ? kIndexBytes : is_loss ? master_bytes_ : compute_bytes_);
  }
}

Shape ProgramSizes::global_shape(NodeId node, int64_t samples) const {
  Shape shape = model_.node(node).sample_shape;
  shape.insert(shape.begin(), samples);
  return shape;
}

const LayerMemory& ProgramSizes::layer(OpId id, int64_t share) {
  const auto [it, fresh] = layers_known_.try_emplace({id, share});
  const Op& op = program_.ops[size_t(id)];
  if (fresh && share > 0) it->second = layers_.memory(op.node, op.option, op.mesh.tensor, share);
  return it->second;
}

Moment ProgramSizes::moment_of(RedistributionRole role, const Instruction& instruction, int rank, int batch) {
  const int list = program_.list_of_rank[size_t(rank)];
  const auto [it, fresh] = messages_.try_emplace(list);
  if (fresh) {
    const std::vector<Instruction>& all = program_.lists[size_t(list)];
    for (int position = 0; position < int(all.size()); ++position) {
      const Instruction& i = all[size_t(position)];
      const RedistributionRole part = description_of(i.code).role;
      if (part == RedistributionRole::send || part == RedistributionRole::receive)
        it->second[{part, i.index, i.adjoint, i.micro_batch}] = {i.lag, position};
    }
  }
  const auto found = it->second.find({role, instruction.index, instruction.adjoint, instruction.micro_batch});
  check_internal(found != it->second.end(), "each message is received");
  return {batch + found->second.first, found->second.second};
}

int64_t RankSizes::bytes(const Layout& layout, NodeId node, int micro_batch) const {
  return elements_of(layout.box_of(rank_, all_.global_shape(node, all_.samples(micro_batch)))) *
         all_.element_bytes(node);
}

int64_t RankSizes::gradient_bytes(ValueId id, int micro_batch) {
  const auto [it, fresh] = gradients_.try_emplace({id, all_.samples(micro_batch)});
  const Value& value = all_.program().values[size_t(id)];
  if (fresh) it->second = bytes(value.gradient, value.node, micro_batch);
  return it->second;
}

int64_t RankSizes::share(OpId id, int micro_batch) {
  const int64_t samples = all_.samples(micro_batch);
  const auto [it, fresh] = shares_.try_emplace({id, samples});
  if (fresh) {
    const Value& output = all_.program().values[size_t(all_.program().ops[size_t(id)].output)];
    it->second = output.layout.box_of(rank_, all_.global_shape(output.node, samples))[0].size();
  }
  return it->second;
}

const LayerMemory& RankSizes::layer(OpId id, int micro_batch) { return all_.layer(id, share(id, micro_batch)); }

int64_t ProgramSizes::summands_of_all_reduce(int64_t elements, int64_t element_bytes, int members) const {
  if (!options_.messages) return 0;
  const bool in_one_round = elements * element_bytes <= options_.messages->inline_bytes;
  const int64_t part = in_one_round ? elements : chunk_elements(elements, members, 0);
  return summands(part * element_bytes, members);
}

bool RankSizes::is_idle(OpId id, int micro_batch) {
  return share(id, micro_batch) == 0 && !all_.program().ops[size_t(id)].communicates;
}

int64_t RankSizes::state_bytes(OpId id, int micro_batch) const {
  const Op& op = all_.program().ops[size_t(id)];
  const auto specs = all_.model().node(op.node).layer->states();
  int64_t elements = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    Shape shape = specs[i].sample_shape;
    shape.insert(shape.begin(), all_.samples(micro_batch));
    elements += elements_of(Layout{op.mesh, Placement::shard(0), op.option.states[i]}.box_of(rank_, shape));
  }
  return elements * all_.compute_bytes();
}

int64_t RankSizes::buffer_bytes(const Op& op) const {
  const auto specs = all_.model().node(op.node).layer->buffers();
  int64_t elements = 0;
  for (size_t i = 0; i < specs.size(); ++i)
    elements +=
        elements_of(Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank_, specs[i].shape));
  return elements * all_.master_bytes();
}

const ArrivingValue& RankSizes::arrival(RedistributionId redistribution, bool adjoint, int micro_batch) {
  const int64_t samples = all_.samples(micro_batch);
  const auto [it, fresh] = arrivals_.try_emplace({redistribution, adjoint, samples});
  if (fresh) it->second = find_arrival(redistribution, adjoint, samples);
  return it->second;
}

/// The cases of redistribute() in tensor/redistribute.h, on backend `local`.
ArrivingValue RankSizes::find_arrival(RedistributionId id, bool adjoint, int64_t samples) const {
  const Program& program = all_.program();
  const Redistribution& redistribution = program.redistributions[size_t(id)];
  const RedistributionEnds ends = ends_of(redistribution, program, adjoint);
  const NodeId node = program.values[size_t(redistribution.from)].node;
  const Shape shape = all_.global_shape(node, samples);
  const bool held = holds(ends.from);
  if (!holds(ends.to)) return {};
  if (ends.from == ends.to) return {.kind = held ? ArrivingValue::Kind::same : ArrivingValue::Kind::nothing};
  const Box box = ends.to.box_of(rank_, shape);
  const int64_t bytes = elements_of(box) * all_.element_bytes(node);
  if (const auto group = all_reduce_group(ends.from, ends.to, rank_); !group.empty())
    return {.kind = ArrivingValue::Kind::made,
            .bytes = bytes,
            .exchanges = true,
            .reduces = true,
            .received = all_.summands_of_all_reduce(elements_of(box), all_.element_bytes(node), int(group.size()))};

  const Box local = held ? ends.from.box_of(rank_, shape) : Box{};
  const auto transfers = transfers_to(rank_, ends.from, ends.to, shape);
  const auto any = [&](auto&& is) { return std::any_of(transfers.begin(), transfers.end(), is); };
  const bool has_values = any([](const TensorTransfer& t) { return !is_empty(t.box); });
  const bool from_itself = !any([&](const TensorTransfer& t) { return t.source != rank_; });
  const bool keeps_all = held && local == box && from_itself && transfers.size() <= 1;
  ArrivingValue arrival{.kind = ArrivingValue::Kind::made, .bytes = bytes, .exchanges = !from_itself};
  const bool is_part = has_values && transfers.size() == 1 && transfers[0].box == box;
  if ((keeps_all && (has_values || is_empty(box))) || (is_part && from_itself && is_one_stretch(box, local)))
    arrival.kind = ArrivingValue::Kind::same;
  const bool adds = any([](const TensorTransfer& t) { return t.add; });
  if (adds && all_.element_bytes(node) == kNarrowBytes) arrival.adding = bytes / kNarrowBytes * int64_t(sizeof(float));
  if (all_.options().messages && arrival.kind == ArrivingValue::Kind::made && !is_part)
    for (const TensorTransfer& transfer : transfers)
      if (transfer.source != rank_) arrival.received += elements_of(transfer.box) * all_.element_bytes(node);
  return arrival;
}

int64_t RankSizes::posted() const {
  const auto& messages = all_.options().messages;
  if (!messages || messages->posted == 0) return 0;
  std::map<int, int64_t> longest;  // by sender
  const auto note = [&](int sender, int64_t bytes) {
    if (sender == rank_ || bytes <= messages->inline_bytes || bytes > messages->posted_bytes) return;
    longest[sender] = std::max(longest[sender], bytes);
  };
  const Program& program = all_.program();
  std::set<std::pair<int, bool>> seen;
  for (const Instruction& i : program.instructions(rank_)) {
    const OpCodeDescription& description = description_of(i.code);
    if (description.memory == MemoryEffect::gather_weights) {
      const Bucket& bucket = program.buckets[size_t(i.index)];
      const int64_t element = all_.is_narrow(bucket) ? all_.compute_bytes() : all_.master_bytes();
      for (const int holder : bucket.run_of(rank_)) note(holder, bucket.slice_of(holder).size() * element);
    }
    if (description.memory != MemoryEffect::redistribute_value || !seen.insert({i.index, i.adjoint}).second) continue;
    const Redistribution& redistribution = program.redistributions[size_t(i.index)];
    const RedistributionEnds ends = ends_of(redistribution, program, i.adjoint);
    if (!holds(ends.to) || ends.from == ends.to || !all_reduce_group(ends.from, ends.to, rank_).empty()) continue;
    const NodeId node = program.values[size_t(redistribution.from)].node;
    for (const TensorTransfer& t : transfers_to(rank_, ends.from, ends.to, all_.global_shape(node, all_.samples(0))))
      note(t.source, elements_of(t.box) * all_.element_bytes(node));
  }
  int64_t bytes = 0;
  for (const auto& [sender, most] : longest) bytes += messages->posted * most;
  return bytes;
}

}  // namespace trireme
