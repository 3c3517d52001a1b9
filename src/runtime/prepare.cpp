// Worker: what is known before the first step: bindings of layers to buckets and groups.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/memory.h"
#include "runtime/migrate/migrate.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/worker_state.h"

namespace trireme {
namespace {

/// Whether all that use the parameter read rows of it.
bool is_read_by_rows(const Program& program, const Model& model, int parameter) {
  return std::all_of(program.ops.begin(), program.ops.end(), [&](const Op& op) {
    const bool uses = std::find(op.parameters.begin(), op.parameters.end(), parameter) != op.parameters.end();
    return !uses || model.node(op.node).layer->reads_rows();
  });
}

}  // namespace

Communicator* Worker::State::group(const std::vector<int>& ranks) {
  auto it = groups.find(ranks);
  if (it == groups.end()) it = groups.emplace(ranks, communicator->group(ranks)).first;
  return it->second.get();
}

void Worker::State::bind_parameter(const Program& program, const Op& op, size_t position, OpBinding& binding) {
  const Placement& placement = op.option.parameters[position];
  const Box box =
      Layout{op.mesh, Placement::replicate(), placement}.box_of(rank, program.parameters[size_t(op.parameters[position])].spec.shape);
  // counted by every worker unless all workers of the tensor axis compute the same gradient
  const bool counts = !op.option.parameter_gradients[position].is_replicate() || binding.tensor_index == 0;
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = program.buckets[b];
    for (size_t s = 0; s < bucket.shards.size(); ++s) {
      if (bucket.shards[s].parameter != op.parameters[position] || bucket.shards[s].box != box) continue;
      const bool contributes =
          program.training && counts && std::binary_search(bucket.contributors.begin(), bucket.contributors.end(), rank);
      const bool by_rows = contributes && position == kTable && box == whole(program.parameters[size_t(op.parameters[position])].spec.shape) &&
                           is_read_by_rows(program, model, op.parameters[position]) &&
                           replicas->track_rows(BucketId(b), int(s), box.front().size());
      binding.parameters.push_back({BucketId(b), int(s), contributes, by_rows, std::vector<CachedView>(size_t(bucket.versions)), {}});
      return;
    }
  }
  check_internal(false, "every parameter shard of a layer lies in one bucket");
}

/// Of a buffer whose part `box` this worker holds.
void Worker::State::give_initial_buffer(const std::string& name, const Box& box, at::Tensor& held) const {
  if (!options.resumed && !model.initial_values()) return;
  const TensorMap& values = options.resumed ? options.resumed->buffers : model.initial_values()->tensors;
  const auto given = values.find(name);
  if (given != values.end()) held.copy_(part_of(given->second, box));
}

void Worker::State::bind(const Program& program, OpId id, OpBinding& binding) {
  const Op& op = program.ops[size_t(id)];
  binding.op = &op;
  binding.tensor_index = op.mesh.tensor_index(rank);
  binding.data_group = group(op.mesh.data_group(rank));
  binding.tensor_group = group(op.mesh.tensor_group(rank));
  for (ValueId input : op.inputs) binding.input_gradient_wanted.push_back(program.values[size_t(input)].needs_gradient);
  for (size_t p = 0; p < op.parameters.size(); ++p) bind_parameter(program, op, p, binding);
  auto specs = model.node(op.node).layer->buffers();
  auto [it, fresh] = buffers.try_emplace(op.node);
  for (size_t i = 0; fresh && i < specs.size(); ++i) {
    MemoryScope scope(MemoryCategory::buffers);
    Box box = Layout{op.mesh, Placement::replicate(), op.option.buffers[i]}.box_of(rank, specs[i].shape);
    it->second.push_back(at::full(shape_of(box), specs[i].initial, at::TensorOptions().dtype(master_type(precision))));
    give_initial_buffer(specs[i].name, box, it->second.back());
  }
  binding.buffers = it->second;
}

void Worker::State::prepare(const Program& program, Prepared& prepared) {
  prepared.program = &program;
  prepared.bindings.resize(program.ops.size());
  for (OpId id = 0; id < OpId(program.ops.size()); ++id)
    if (program.ops[size_t(id)].mesh.index_of(rank) >= 0) bind(program, id, prepared.bindings[size_t(id)]);
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    if (!bucket.contributors.empty() && std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank))
      prepared.trainable.push_back(b);
  }
  prepared.uses = count_reads(program, rank);
  prepared.loaded = loaded_values(program, rank);
  if (!recorder) return;
  for (const Instruction& i : program.instructions(rank)) {
    prepared.texts.push_back((program.training ? "" : "evaluation, ") + program.describe(i, model));
    if (program.micro_batches > 1 && i.micro_batch >= 0) prepared.texts.back() += fmt::format(" of micro-batch {}", i.micro_batch + 1);
  }
}

std::vector<TrackedTable> Prepared::tracked_tables() const {
  std::map<std::pair<BucketId, int>, TrackedTable> tables;
  std::set<std::pair<BucketId, int>> computed;  // rows that are no input of the model
  for (const OpBinding& binding : bindings) {
    if (!binding.op || !binding.reads_rows()) continue;
    const ParameterBinding& p = binding.parameters[kTable];
    const Value& rows = program->values[size_t(binding.op->inputs[kRows])];
    TrackedTable& table = tables[{p.bucket, p.shard}];
    table.bucket = p.bucket;
    table.shard = p.shard;
    table.row_inputs.push_back(rows.node);
    if (!rows.loaded) computed.insert({p.bucket, p.shard});
  }
  std::vector<TrackedTable> known;
  for (const auto& [key, table] : tables)
    if (!computed.contains(key)) known.push_back(table);
  return known;
}

void Prepared::drop_views(BucketId bucket, bool of_gradients) {
  for (OpBinding& binding : bindings)
    for (ParameterBinding& p : binding.parameters) {
      if (p.bucket != bucket) continue;
      if (of_gradients) p.gradient.drop();
      else
        for (CachedView& view : p.views) view.drop();
    }
}

}  // namespace trireme
