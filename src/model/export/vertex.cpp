#include "model/export/vertex.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trireme {
namespace {

constexpr NodeId kData = 0;

}  // namespace

Vertex::Vertex(const Model& model, NodeId id)
    : node_(&model.node(id)), layer_(node_->layer.get()), id_(id), kind_(layer_->kind()), attributes_(layer_->attributes()),
      input_shapes_(model.input_shapes(id)), parameters_(layer_->parameters()), buffers_(layer_->buffers()) {}

template <class T>
const T& Vertex::get(const char* name) const {
  const auto found = attributes_.find(name);
  check_internal(found != attributes_.end() && std::holds_alternative<T>(found->second),
                 fmt::format("layers of kind {} tell their attribute \"{}\"", kind_, name));
  return std::get<T>(found->second);
}

template const bool& Vertex::get<bool>(const char*) const;
template const int64_t& Vertex::get<int64_t>(const char*) const;
template const double& Vertex::get<double>(const char*) const;
template const std::vector<int64_t>& Vertex::get<std::vector<int64_t>>(const char*) const;

std::vector<Vertex> layers_before_output(const Model& model) {
  std::vector<bool> needed(model.nodes().size());
  needed[size_t(model.output())] = true;
  for (NodeId id = model.output(); id >= 0; --id)
    if (needed[size_t(id)])
      for (NodeId input : model.node(id).inputs) needed[size_t(input)] = true;
  for (NodeId input = kData + 1; input < model.input_count(); ++input)
    if (needed[size_t(input)])
      fail_user({.where = fmt::format("model \"{}\"", model.name()),
                 .what = fmt::format("its output depends on \"{}\"", model.node(input).name),
                 .why = "an exported model reads its data alone",
                 .next = "export the weights as safetensors"});
  std::vector<Vertex> vertices;
  for (NodeId id = model.input_count(); id <= model.output(); ++id)
    if (needed[size_t(id)]) vertices.emplace_back(model, id);
  return vertices;
}

std::vector<std::string> linear_in_loss(const Model& model) {
  const Layer& loss = *model.node(model.loss()).layer;
  std::vector<std::string> names;
  if (loss.kind() == "sampled_softmax")
    for (const ParameterSpec& spec : loss.parameters()) names.push_back(spec.name);
  return names;
}

void fail_export(const Layer& layer, const char* form) {
  fail_user({.where = fmt::format("layer \"{}\"", layer.name()), .what = fmt::format("kind {}", layer.kind()),
             .why = fmt::format("it has no counterpart in {} here", form), .next = "export the weights as safetensors"});
}

}  // namespace trireme
