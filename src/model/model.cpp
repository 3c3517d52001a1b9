#include "trireme/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/random.h"
#include "trireme/error.h"

namespace trireme {

namespace {

constexpr std::string_view kDigits = "0123456789";

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of(kDigits) == std::string_view::npos;
}

/// True for a numbered word that names a piece of a network: "layer2", "encoder_layer_3", "denseblock1", "transition1",
/// "inception3a".
bool is_numbered_piece(std::string_view part) {
  if (!part.empty() && part.back() >= 'a' && part.back() <= 'z') part.remove_suffix(1);
  const size_t word_end = part.find_last_not_of(kDigits) + 1;  // 0 if there is no word
  std::string_view word = part.substr(0, word_end);
  if (word_end == 0 || word_end == part.size()) return false;
  if (word.ends_with('_')) word.remove_suffix(1);
  constexpr std::string_view kPieces[] = {"layer", "block", "stage", "transition", "inception"};
  return std::any_of(std::begin(kPieces), std::end(kPieces),
                     [&](std::string_view piece) { return word.ends_with(piece); });
}

}  // namespace

std::string block_of(std::string_view layer_name) {
  const size_t first_dot = layer_name.find('.');
  if (first_dot == std::string_view::npos) return "";
  size_t end = 0;  // end of the innermost block found so far
  for (size_t begin = 0, dot = first_dot;; begin = dot + 1, dot = layer_name.find('.', begin)) {
    const bool is_last = dot == std::string_view::npos;
    const std::string_view part = layer_name.substr(begin, dot - begin);
    const bool number = begin > 0 && is_number(part);
    const bool piece = !is_last && is_numbered_piece(part);
    if (number || piece) end = begin + part.size();
    const bool past_it = end > 0 && !piece;
    if (number || past_it || is_last) break;
  }
  return std::string(layer_name.substr(0, end > 0 ? end : first_dot));
}

NodeId Model::find(std::string_view name) const {
  auto it = std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.name == name; });
  return it == nodes_.end() ? -1 : NodeId(it - nodes_.begin());
}

std::vector<Shape> Model::input_shapes(NodeId id) const {
  std::vector<Shape> shapes;
  for (NodeId input : node(id).inputs) shapes.push_back(node(input).sample_shape);
  return shapes;
}

std::vector<ParameterSpec> Model::parameters() const {
  std::vector<ParameterSpec> all;
  std::map<std::string, bool> seen;
  for (const Node& node : nodes_) {
    if (!node.layer) continue;
    for (ParameterSpec& spec : node.layer->parameters())
      if (!std::exchange(seen[spec.name], true)) all.push_back(std::move(spec));
  }
  return all;
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameters()) count += element_count(spec.shape);
  return count;
}

std::vector<BufferSpec> Model::buffers() const {
  std::vector<BufferSpec> all;
  for (const Node& node : nodes_)
    if (node.layer)
      for (BufferSpec& spec : node.layer->buffers()) all.push_back(std::move(spec));
  return all;
}

Model Model::with_initial_values(InitialValues values) const {
  std::map<std::string, Shape> shapes;
  for (const ParameterSpec& spec : parameters()) shapes[spec.name] = spec.shape;
  for (const BufferSpec& spec : buffers()) shapes[spec.name] = spec.shape;
  for (const auto& [name, tensor] : values.tensors) {
    const auto known = shapes.find(name);
    check_internal(known != shapes.end(), fmt::format("model \"{}\" has no tensor \"{}\"", name_, name));
    check_internal(tensor.sizes() == at::IntArrayRef(known->second),
                   fmt::format("initial values have the model's shapes, \"{}\" too", name));
  }
  Model model = *this;
  model.initial_values_ = std::make_shared<const InitialValues>(std::move(values));
  return model;
}

std::string Model::fingerprint() const {
  std::string text;
  for (const Node& node : nodes_) {
    text += fmt::format("{}|{}|{}", node.name, node.layer ? node.layer->kind() : "input", to_string(node.sample_shape));
    for (NodeId input : node.inputs) text += fmt::format("|{}", input);
    if (node.layer)
      for (const ParameterSpec& spec : node.layer->parameters())
        text += fmt::format("|{}{}", spec.name, to_string(spec.shape));
    text += '\n';
  }
  text += fmt::format("{}|{}", output_, loss_);
  return fmt::format("{:016x}", random_key(0, text));
}

ModelBuilder::ModelBuilder(std::string name) { model_.name_ = std::move(name); }

namespace {

[[noreturn]] void fail_model(const Model& model, std::string what, std::string why, std::string next) {
  fail_user({.where = fmt::format("model \"{}\"", model.name()),
             .what = std::move(what),
             .why = std::move(why),
             .next = std::move(next)});
}

void expect_new_name(const Model& model, const std::string& name) {
  if (model.find(name) >= 0)
    fail_model(model, fmt::format("a second node \"{}\"", name), "names must be unique", "rename one of the two");
}

}  // namespace

NodeId ModelBuilder::input(std::string name, Shape sample_shape) {
  expect_new_name(model_, name);
  if (model_.inputs_ != int(model_.nodes_.size()))
    fail_model(model_, fmt::format("input \"{}\"", name), "inputs come before the first layer", "declare it earlier");
  model_.nodes_.push_back(
      {.name = std::move(name), .layer = nullptr, .inputs = {}, .sample_shape = std::move(sample_shape)});
  return model_.inputs_++;
}

NodeId ModelBuilder::add(std::shared_ptr<const Layer> layer, std::vector<NodeId> inputs) {
  expect_new_name(model_, layer->name());
  std::vector<Shape> shapes;
  for (NodeId input : inputs) {
    if (input < 0 || input >= NodeId(model_.nodes_.size()))
      fail_model(model_, fmt::format("layer \"{}\" reads node {}", layer->name(), input),
                 fmt::format("there are nodes 0 to {}", int(model_.nodes_.size()) - 1),
                 "add layers in topological order");
    shapes.push_back(shape(input));
  }
  Shape out = layer->output_shape(shapes);
  std::string name = layer->name();
  model_.nodes_.push_back({std::move(name), std::move(layer), std::move(inputs), std::move(out)});
  return NodeId(model_.nodes_.size()) - 1;
}

Model ModelBuilder::finish(NodeId output, NodeId loss) {
  const NodeId last = NodeId(model_.nodes_.size()) - 1;
  if (loss != last || loss < model_.inputs_)
    fail_model(model_, fmt::format("loss node {}", loss), fmt::format("it must be the last layer added, {}", last),
               "add the loss last");
  if (output < 0 || output >= loss)
    fail_model(model_, fmt::format("output node {}", output), "it must lie before the loss",
               "pass the node of the logits");
  if (!shape(loss).empty())
    fail_model(model_, fmt::format("loss \"{}\" of sample shape {}", model_.node(loss).name, to_string(shape(loss))),
               "a loss is one number per sample", "end the model with a loss layer");

  model_.consumers_.assign(model_.nodes_.size(), {});
  // parameter -> its shape and the first layer that declares it
  std::map<std::string, std::pair<Shape, std::string>> shapes;
  for (NodeId id = model_.inputs_; id <= last; ++id) {
    const Node& node = model_.node(id);
    for (NodeId input : node.inputs) model_.consumers_[size_t(input)].push_back(id);
    for (const ParameterSpec& spec : node.layer->parameters()) {
      auto [it, added] = shapes.try_emplace(spec.name, spec.shape, node.name);
      if (!added && it->second.first != spec.shape)
        fail_model(
            model_,
            fmt::format("parameter \"{}\" of layer \"{}\" has shape {}", spec.name, node.name, to_string(spec.shape)),
            fmt::format("layer \"{}\" declares it as {}", it->second.second, to_string(it->second.first)),
            "tied parameters need equal shapes");
    }
  }
  model_.output_ = output;
  model_.loss_ = loss;
  return std::move(model_);
}

}  // namespace trireme
