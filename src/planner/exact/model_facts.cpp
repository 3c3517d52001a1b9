#include "planner/exact/model_facts.h"

#include <set>
#include <tuple>

#include "plan/named.h"

namespace trireme {

std::vector<int> equal_layers(const Model& model) {
  using Parameters = std::vector<std::pair<Shape, bool>>;
  using Key = std::tuple<std::string, Attributes, std::vector<Shape>, Shape, Parameters>;
  std::map<Key, int> known;
  std::vector<int> classes(model.nodes().size(), -1);
  for (NodeId id = model.input_count(); id < NodeId(classes.size()); ++id) {
    const Node& node = model.node(id);
    Parameters parameters;
    for (const ParameterSpec& p : node.layer->parameters()) parameters.emplace_back(p.shape, p.full_precision);
    Key key{std::string(node.layer->kind()), node.layer->attributes(), model.input_shapes(id), node.sample_shape,
            std::move(parameters)};
    classes[size_t(id)] = known.emplace(std::move(key), int(known.size())).first->second;
  }
  return classes;
}

namespace {

/// As equal_layers, of layers whose costs are equal too.
std::vector<int> equal_costs(const PlanRequest& request) {
  std::vector<int> classes = equal_layers(request.model);
  std::map<std::pair<int, int>, int> known;
  for (NodeId id = request.model.input_count(); id < NodeId(classes.size()); ++id) {
    const std::pair both(classes[size_t(id)], request.costs.cost_class(id));
    classes[size_t(id)] = known.emplace(both, int(known.size())).first->second;
  }
  return classes;
}

}  // namespace

ModelFacts::ModelFacts(const PlanRequest& request) : request_(request), layers_(request.model.nodes().size()) {
  const Model& model = request.model;
  const std::vector<int> classes = request.layer_classes.empty() ? equal_costs(request) : request.layer_classes;
  for (const Node& node : model.nodes())
    sample_bytes_.push_back(double(element_count(node.sample_shape)) * request.bytes_per_value);
  for (NodeId id = first_layer(); id < end(); ++id) {
    layers_[size_t(id)].layer_class = classes[size_t(id)];
    for (const NodeId source : model.node(id).inputs)
      layers_[size_t(id)].gradient_goes.push_back(source >= first_layer() &&
                                                  model.node(source).layer->passes_gradients());
  }
  find_parameters();
  find_kept();
  find_runs();
}

void ModelFacts::find_parameters() {
  std::map<std::string, std::set<NodeId>> users;
  for (NodeId id = first_layer(); id < end(); ++id)
    for (const ParameterSpec& p : model().node(id).layer->parameters()) users[p.name].insert(id);
  std::map<std::string, int> groups;
  for (const auto& [name, nodes] : users) {
    if (nodes.size() == 1) continue;
    groups[name] = int(tied_.size());
    tied_.emplace_back(nodes.begin(), nodes.end());
  }
  for (NodeId id = first_layer(); id < end(); ++id)
    for (const ParameterSpec& p : model().node(id).layer->parameters()) {
      const auto group = groups.find(p.name);
      layers_[size_t(id)].parameters.push_back(
          {double(element_count(p.shape)), group == groups.end() ? -1 : group->second});
    }
}

void ModelFacts::find_kept() {
  for (NodeId id = end() - 1; id >= first_layer(); --id) {
    LayerFacts& layer = layers_[size_t(id)];
    const LayerMemory memory = request_.costs.memory(id, options(id, 1).front(), 1, 1);
    layer.output_kept = layer.output_kept || memory.keeps_output;  // consumers were visited before
    const std::vector<NodeId>& inputs = model().node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool keeps = i < memory.keeps_input.size() && memory.keeps_input[i];
      const bool kept = keeps || (memory.output_shares_input == int(i) && layer.output_kept);
      layer.copy_kept.push_back(kept);
      if (kept && inputs[i] >= first_layer()) layers_[size_t(inputs[i])].output_kept = true;
    }
  }
}

void ModelFacts::find_runs() {
  labels_ = trireme::recompute_labels(model());
  std::set<NodeId> read;  // sources that the run has read
  for (NodeId id = first_layer(); id < end(); ++id) {
    LayerFacts& layer = layers_[size_t(id)];
    const bool begins = id == first_layer() || labels_[size_t(id)] != labels_[size_t(id) - 1];
    layer.run = begins ? id : layers_[size_t(id) - 1].run;
    if (begins) read.clear();
    for (const NodeId source : model().node(id).inputs)
      layer.first_in_run.push_back(source < layer.run && read.insert(source).second);
  }
}

const std::vector<ShardingOption>& ModelFacts::options(NodeId id, int tensor) const {
  const std::pair<int, int> key{layers_[size_t(id)].layer_class, tensor};
  const auto found = options_.find(key);
  if (found != options_.end()) return found->second;
  return options_.emplace(key, model().node(id).layer->sharding_options(model().input_shapes(id), tensor))
      .first->second;
}

}  // namespace trireme
