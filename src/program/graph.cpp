#include "program/graph.h"

#include <algorithm>
#include <map>

#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

class GraphBuilder {
 public:
  GraphBuilder(const Model& model, const Plan& plan, const CompileOptions& options, const std::vector<int>& delays,
               Program& program)
      : model_(model),
        plan_(plan),
        options_(options),
        delays_(delays),
        program_(program),
        splits_backward_(find_schedule(plan.schedule, plan.name).splits_backward) {}

  void run() {
    collect_parameters();
    mark_needed_gradients();
    produced_.assign(model_.nodes().size(), -1);
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) add_op(id);
  }

 private:
  /// Parameters that no layer on a path to the loss uses do not change, like frozen ones. A layer that passes no
  /// gradients ends a path.
  void collect_parameters() {
    reaches_loss_.assign(model_.nodes().size(), false);
    reaches_loss_[size_t(model_.loss())] = true;
    for (NodeId id = model_.loss(); id >= model_.input_count(); --id) {
      reaches_loss_[size_t(id)] = reaches_loss_[size_t(id)] && model_.node(id).layer->passes_gradients();
      if (reaches_loss_[size_t(id)])
        for (NodeId input : model_.node(id).inputs) reaches_loss_[size_t(input)] = true;
    }
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id)
      for (const ParameterSpec& spec : model_.node(id).layer->parameters()) {
        auto [it, fresh] = parameters_.emplace(spec.name, int(program_.parameters.size()));
        if (fresh) program_.parameters.push_back({spec, false});
        ProgramParameter& parameter = program_.parameters[size_t(it->second)];
        parameter.trainable =
            parameter.trainable || (reaches_loss_[size_t(id)] && !freezes(options_.frozen, spec.name));
      }
  }

  void mark_needed_gradients() {
    needs_gradient_.assign(model_.nodes().size(), false);
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) {
      if (!reaches_loss_[size_t(id)]) continue;
      bool needed = false;
      for (const ParameterSpec& spec : model_.node(id).layer->parameters())
        needed = needed || program_.parameters[size_t(parameters_.at(spec.name))].trainable;
      for (NodeId input : model_.node(id).inputs) needed = needed || needs_gradient_[size_t(input)];
      needs_gradient_[size_t(id)] = needed;
    }
  }

  void add_op(NodeId id) {
    Op op;
    op.node = id;
    op.option = option_of(plan_, model_, id);
    op.mesh = plan_.mesh_of(id);
    op.stage = plan_.layers[size_t(id)].stage;
    const Layer& layer = *model_.node(id).layer;
    op.delay = delays_[size_t(op.stage)];
    op.splits_backward = splits_backward_ && layer.splits_backward();
    op.has_buffers = !layer.buffers().empty();
    op.communicates = (op.option.communicates_over_tensor_axis && op.mesh.tensor > 1) ||
                      (program_.training && op.mesh.data > 1 && layer.communicates_over_data_axis(options_.batch_norm));
    for (size_t i = 0; i < model_.node(id).inputs.size(); ++i) op.inputs.push_back(input_value(op, int(i)));
    op.output = int(program_.values.size());
    program_.values.push_back({id, normalized({op.mesh, Placement::shard(0), op.option.output}),
                               normalized({op.mesh, Placement::shard(0), gradient_needed(op.option.output)}),
                               needs_gradient_[size_t(id)], false});
    produced_[size_t(id)] = op.output;
    for (const ParameterSpec& spec : layer.parameters()) op.parameters.push_back(parameters_.at(spec.name));
    if (id == model_.loss()) program_.loss = int(program_.ops.size());
    program_.ops.push_back(std::move(op));
  }

  /// The value that input `i` of `op` reads. It is the producer's own value if its layout is the required one.
  /// Otherwise it is a redistributed value, shared by all consumers that need the same layout and produce its gradient
  /// in the same layout.
  ValueId input_value(const Op& op, int i) {
    NodeId source = model_.node(op.node).inputs[size_t(i)];
    Layout wanted = normalized({op.mesh, Placement::shard(0), op.option.inputs[size_t(i)]});
    Layout gradient = normalized({op.mesh, Placement::shard(0), op.option.input_gradients[size_t(i)]});
    ValueId own = produced_[size_t(source)];
    bool is_input = source < model_.input_count();
    if (!is_input && program_.values[size_t(own)].layout == wanted &&
        (!needs_gradient_[size_t(source)] || program_.values[size_t(own)].gradient == gradient))
      return own;
    if (is_input) gradient = wanted;  // no gradient is needed: one loaded copy serves all consumers
    for (ValueId v = 0; v < ValueId(program_.values.size()); ++v) {
      const Value& value = program_.values[size_t(v)];
      if (value.node == source && v != own && value.layout == wanted && value.gradient == gradient) return v;
    }
    ValueId from = own;
    if (!is_input)
      if (const int dim = dim_of_slices(own, wanted, gradient); dim > 0) from = in_slices(own, wanted, dim);
    auto id = ValueId(program_.values.size());
    program_.values.push_back({source, wanted, gradient, needs_gradient_[size_t(source)], is_input});
    if (!is_input) add_redistribution(from, id);
    return id;
  }

  /// The dim along which tensor ranks slice a value that they send to another stage (Plan::scatter_messages); 0: they
  /// send the value without slicing it.
  int dim_of_slices(ValueId own, const Layout& wanted, const Layout& gradient) const {
    const Value& value = program_.values[size_t(own)];
    const Layout& layout = value.layout;
    const int degree = layout.mesh.tensor;
    const bool alike = layout.mesh.workers != wanted.mesh.workers && wanted.mesh.tensor == degree &&
                       wanted.mesh.data == layout.mesh.data;
    const bool whole = layout.tensor.is_replicate() && wanted.tensor.is_replicate() &&
                       value.gradient.tensor.is_replicate() && !gradient.tensor.is_shard();
    if (!plan_.scatter_messages || degree == 1 || !alike || !whole) return 0;
    const Shape& sample = model_.node(value.node).sample_shape;
    for (size_t d = 0; d < sample.size(); ++d)
      if (sample[d] % degree == 0) return int(d) + 1;
    return 0;
  }

  /// Returns the value whose slices are on the workers of `wanted`, the layout that reads them. Adds it, and the sliced
  /// value on the sender's workers, if they do not exist.
  ValueId in_slices(ValueId own, const Layout& wanted, int dim) {
    const Mesh& there = wanted.mesh;
    if (const ValueId known = find_slices(own, there, dim); known >= 0) return known;
    const Mesh here = program_.values[size_t(own)].layout.mesh;
    ValueId sent = find_slices(own, here, dim);
    if (sent < 0) sent = add_slices(own, own, here, dim);
    return add_slices(sent, own, there, dim);
  }

  Layout slices_on(const Mesh& mesh, ValueId own, int dim) const {
    return normalized({mesh, program_.values[size_t(own)].layout.data, Placement::shard(dim)});
  }

  /// Finds a value of the same node with these slices; -1: there is none.
  ValueId find_slices(ValueId own, const Mesh& mesh, int dim) const {
    const Layout layout = slices_on(mesh, own, dim);
    for (ValueId v = 0; v < ValueId(program_.values.size()); ++v) {
      const Value& value = program_.values[size_t(v)];
      if (value.node == program_.values[size_t(own)].node && value.layout == layout && value.gradient == layout)
        return v;
    }
    return -1;
  }

  ValueId add_slices(ValueId from, ValueId own, const Mesh& mesh, int dim) {
    const Layout layout = slices_on(mesh, own, dim);
    const auto id = ValueId(program_.values.size());
    program_.values.push_back(
        {program_.values[size_t(own)].node, layout, layout, program_.values[size_t(own)].needs_gradient, false});
    add_redistribution(from, id);
    return id;
  }

  void add_redistribution(ValueId from, ValueId to) {
    const Value &a = program_.values[size_t(from)], &b = program_.values[size_t(to)];
    Redistribution redistribution;
    redistribution.from = from;
    redistribution.to = to;
    redistribution.gradient_from = b.gradient;
    redistribution.gradient_to = a.gradient;
    redistribution.crosses_stages = a.layout.mesh.workers != b.layout.mesh.workers;
    redistribution.redistributes_forward = a.layout != b.layout;
    redistribution.redistributes_backward =
        a.needs_gradient && redistribution.gradient_from != redistribution.gradient_to;
    program_.redistributions.push_back(std::move(redistribution));
  }

  const Model& model_;
  const Plan& plan_;
  const CompileOptions& options_;
  const std::vector<int>& delays_;
  Program& program_;
  const bool splits_backward_;
  std::map<std::string, int> parameters_;  // by name: index into Program::parameters
  std::vector<bool> reaches_loss_, needs_gradient_;
  std::vector<ValueId> produced_;
};

}  // namespace

bool freezes(const std::string& pattern, const std::string& parameter) {
  return pattern.ends_with('*') ? parameter.starts_with(pattern.substr(0, pattern.size() - 1)) : parameter == pattern;
}

bool freezes(const std::vector<std::string>& patterns, const std::string& parameter) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return freezes(pattern, parameter); });
}

Layout normalized(Layout layout) {
  if (layout.mesh.data == 1) layout.data = Placement::replicate();
  if (layout.mesh.tensor == 1) layout.tensor = Placement::replicate();
  return layout;
}

void build_graph(const Model& model, const Plan& plan, const CompileOptions& options, const std::vector<int>& delays,
                 Program& program) {
  GraphBuilder(model, plan, options, delays, program).run();
}

}  // namespace trireme
