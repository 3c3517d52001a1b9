#include "program/graph.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"

namespace trireme {
namespace {

ShardingOption find_option(const Model& model, const Plan& plan, NodeId id) {
  const LayerPlan& layer = plan.layers[size_t(id)];
  for (ShardingOption& option : model.node(id).layer->sharding_options(model.input_shapes(id), layer.tensor))
    if (option.name == layer.split) return option;
  check_internal(false, "a validated plan names only splits that exist");
  return {};
}

/// A gradient lies like its value, but a summand's gradient is needed whole by everyone who summed.
Placement gradient_needed(const Placement& output) { return output.is_shard() ? output : Placement::replicate(); }

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Plan& plan, const CompileOptions& options, Program& program)
      : model_(model), plan_(plan), options_(options), program_(program) {}

  void run() {
    mark_needed_gradients();
    produced_.assign(model_.nodes().size(), -1);
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) add_op(id);
  }

 private:
  void mark_needed_gradients() {
    needs_gradient_.assign(model_.nodes().size(), false);
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) {
      bool needed = !model_.node(id).layer->parameters().empty();
      for (NodeId input : model_.node(id).inputs) needed = needed || needs_gradient_[size_t(input)];
      needs_gradient_[size_t(id)] = needed;
    }
  }

  void add_op(NodeId id) {
    Op op;
    op.node = id;
    op.option = find_option(model_, plan_, id);
    op.mesh = plan_.mesh_of(id);
    op.stage = plan_.layers[size_t(id)].stage;
    const Layer& layer = *model_.node(id).layer;
    op.has_buffers = !layer.buffers().empty();
    op.talks = (op.option.talks_over_tensor_axis && op.mesh.tensor > 1) ||
               (program_.training && op.mesh.data > 1 && layer.talks_over_data_axis(options_.batch_norm));
    for (size_t i = 0; i < model_.node(id).inputs.size(); ++i) op.inputs.push_back(input_value(op, int(i)));
    op.output = int(program_.values.size());
    program_.values.push_back(
        {id, normalized({op.mesh, Placement::shard(0), op.option.output}),
         normalized({op.mesh, Placement::shard(0), gradient_needed(op.option.output)}), needs_gradient_[size_t(id)], false});
    produced_[size_t(id)] = op.output;
    for (const ParameterSpec& spec : model_.node(id).layer->parameters()) op.parameters.push_back(parameter_index(spec));
    if (id == model_.loss()) program_.loss = int(program_.ops.size());
    program_.ops.push_back(std::move(op));
  }

  /// The value that input `i` of `op` reads: the producer's own when it lies right, else a redistributed one, shared by all
  /// consumers that need the same layout and give the gradient in the same layout.
  ValueId input_value(const Op& op, int i) {
    NodeId source = model_.node(op.node).inputs[size_t(i)];
    Layout wanted = normalized({op.mesh, Placement::shard(0), op.option.inputs[size_t(i)]});
    Layout gradient = normalized({op.mesh, Placement::shard(0), op.option.input_gradients[size_t(i)]});
    ValueId own = produced_[size_t(source)];
    bool is_input = source < model_.input_count();
    if (!is_input && program_.values[size_t(own)].layout == wanted &&
        (!needs_gradient_[size_t(source)] || program_.values[size_t(own)].gradient == gradient))
      return own;
    if (is_input) gradient = wanted;  // nobody asks for it: one loaded copy serves all consumers
    for (ValueId v = 0; v < ValueId(program_.values.size()); ++v) {
      const Value& value = program_.values[size_t(v)];
      if (value.node == source && v != own && value.layout == wanted && value.gradient == gradient) return v;
    }
    auto id = ValueId(program_.values.size());
    program_.values.push_back({source, wanted, gradient, needs_gradient_[size_t(source)], is_input});
    if (!is_input) add_move(own, id);
    return id;
  }

  void add_move(ValueId from, ValueId to) {
    const Value &a = program_.values[size_t(from)], &b = program_.values[size_t(to)];
    Move move;
    move.from = from;
    move.to = to;
    move.gradient_from = b.gradient;
    move.gradient_to = a.gradient;
    move.crosses_stages = a.layout.mesh.workers != b.layout.mesh.workers;
    move.forward_moves = a.layout != b.layout;
    move.backward_moves = a.needs_gradient && move.gradient_from != move.gradient_to;
    program_.moves.push_back(std::move(move));
  }

  int parameter_index(const ParameterSpec& spec) {
    for (size_t i = 0; i < program_.parameters.size(); ++i)
      if (program_.parameters[i].spec.name == spec.name) return int(i);
    program_.parameters.push_back({spec});
    return int(program_.parameters.size()) - 1;
  }

  const Model& model_;
  const Plan& plan_;
  const CompileOptions& options_;
  Program& program_;
  std::vector<bool> needs_gradient_;
  std::vector<ValueId> produced_;
};

}  // namespace

Layout normalized(Layout layout) {
  if (layout.mesh.data == 1) layout.data = Placement::replicate();
  if (layout.mesh.tensor == 1) layout.tensor = Placement::replicate();
  return layout;
}

void build_graph(const Model& model, const Plan& plan, const CompileOptions& options, Program& program) {
  GraphBuilder(model, plan, options, program).run();
}

}  // namespace trireme
