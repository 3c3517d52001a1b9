#include "model/export/vertex.h"

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr NodeId kData = 0;

}  // namespace

Vertex::Vertex(const Model& model, NodeId id)
    : node_(&model.node(id)),
      id_(id),
      input_shapes_(model.input_shapes(id)),
      parameters_(node_->layer->parameters()),
      buffers_(node_->layer->buffers()) {}

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
                 .why = "an exported model may read only its data",
                 .next = "export the weights as safetensors"});
  std::vector<Vertex> vertices;
  for (NodeId id = model.input_count(); id <= model.output(); ++id)
    if (needed[size_t(id)]) vertices.emplace_back(model, id);
  return vertices;
}

std::vector<std::string> linear_in_loss(const Model& model) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : model.node(model.loss()).layer->parameters()) names.push_back(spec.name);
  return names;
}

}  // namespace trireme
