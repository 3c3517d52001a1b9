#include "runtime/worker/prepared_program.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "comm/flight_recorder.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// True if all layers that use the parameter read rows of it.
bool is_read_by_rows(const Program& program, const Model& model, int parameter) {
  return std::all_of(program.ops.begin(), program.ops.end(), [&](const Op& op) {
    const bool uses = std::find(op.parameters.begin(), op.parameters.end(), parameter) != op.parameters.end();
    return !uses || model.node(op.node).layer->reads_rows();
  });
}

ParameterBinding bind_parameter(const Program& program, const Op& op, size_t position, int tensor_index,
                                const WorkerContext& context) {
  const Placement& placement = op.option.parameters[position];
  const Shape& shape = program.parameters[size_t(op.parameters[position])].spec.shape;
  const Box box = Layout{op.mesh, Placement::replicate(), placement}.box_of(context.rank, shape);
  // Every worker contributes its gradient. If all workers of the tensor axis compute the same gradient, only the first
  // does.
  const bool counts = !op.option.parameter_gradients[position].is_replicate() || tensor_index == 0;
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = program.buckets[b];
    for (size_t s = 0; s < bucket.shards.size(); ++s) {
      if (bucket.shards[s].parameter != op.parameters[position] || bucket.shards[s].box != box) continue;
      const bool contributes = program.training && counts &&
                               std::binary_search(bucket.contributors.begin(), bucket.contributors.end(), context.rank);
      const bool by_rows = contributes && position == kTable && box == whole(shape) &&
                           is_read_by_rows(program, context.model, op.parameters[position]) &&
                           context.replicas.track_rows(BucketId(b), int(s), box.front().size());
      return {BucketId(b), int(s), contributes, by_rows, std::vector<CachedView>(size_t(bucket.versions)), {}};
    }
  }
  check_internal(false, "every parameter shard of a layer lies in one bucket");
  return {};
}

OpBinding bind(const Program& program, const Op& op, const WorkerContext& context, SubGroups& groups,
               LayerBuffers& buffers) {
  OpBinding binding;
  binding.op = &op;
  binding.tensor_index = op.mesh.tensor_index(context.rank);
  binding.data_group = &groups.of(op.mesh.data_group(context.rank));
  binding.tensor_group = &groups.of(op.mesh.tensor_group(context.rank));
  for (ValueId input : op.inputs) binding.input_gradient_wanted.push_back(program.values[size_t(input)].needs_gradient);
  for (size_t p = 0; p < op.parameters.size(); ++p)
    binding.parameters.push_back(bind_parameter(program, op, p, binding.tensor_index, context));
  binding.buffers = buffers.of(op);
  return binding;
}

std::vector<std::string> texts_of(const Program& program, const WorkerContext& context) {
  std::vector<std::string> texts;
  for (const Instruction& i : program.instructions(context.rank)) {
    texts.push_back((program.training ? "" : "evaluation, ") + program.describe(i, context.model));
    if (program.micro_batches > 1 && i.micro_batch >= 0)
      texts.back() += fmt::format(" of micro-batch {}", i.micro_batch + 1);
  }
  return texts;
}

}  // namespace

PreparedProgram::PreparedProgram(const Program& given, const WorkerContext& context, SubGroups& groups,
                                 LayerBuffers& buffers)
    : program(&given),
      bindings(given.ops.size()),
      uses(count_reads(given, context.rank)),
      loaded(loaded_values(given, context.rank)) {
  for (size_t id = 0; id < given.ops.size(); ++id)
    if (given.ops[id].mesh.index_of(context.rank) >= 0)
      bindings[id] = bind(given, given.ops[id], context, groups, buffers);
  for (BucketId b = 0; b < BucketId(given.buckets.size()); ++b) {
    const Bucket& bucket = given.buckets[size_t(b)];
    if (!bucket.contributors.empty() && std::binary_search(bucket.holders.begin(), bucket.holders.end(), context.rank))
      trainable.push_back(b);
  }
  if (flight_recorder(context.world)) texts = texts_of(given, context);
}

std::vector<TrackedTable> PreparedProgram::tracked_tables() const {
  std::map<std::pair<BucketId, int>, TrackedTable> tables;
  std::set<std::pair<BucketId, int>> computed;  // tables whose row numbers are not a model input
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

void PreparedProgram::drop_views(BucketId bucket, bool of_gradients) {
  for (OpBinding& binding : bindings)
    for (ParameterBinding& p : binding.parameters) {
      if (p.bucket != bucket) continue;
      if (of_gradients) p.gradient.drop();
      else
        for (CachedView& view : p.views) view.drop();
    }
}

}  // namespace trireme
