// A model: "swish-mlp", which uses the layer of layer.cpp. Experiments name it: model = "swish-mlp".
#include <trireme/layers/flatten.h>
#include <trireme/layers/linear.h>
#include <trireme/zoo.h>

std::shared_ptr<const trireme::Layer> make_swish(std::string name, int64_t features);

namespace {

using namespace trireme;

Model make_swish_mlp(const ModelSpec& spec, const ModelOptions& options) {
  const auto width = int64_t(options.at("width"));
  ModelBuilder builder(spec.name);
  const NodeId data = builder.input("data", spec.sample_shape), target = builder.input("target", spec.target_shape);
  NodeId x = builder.layer<Flatten>({data}, "flatten");
  int64_t features = element_count(spec.sample_shape);
  for (int i = 0; i < int(options.at("depth")); ++i) {
    const std::string block = "blocks." + std::to_string(i);
    x = builder.layer<Linear>({x}, block + ".linear", features, width);
    x = builder.add(make_swish(block + ".swish", width), {x});
    features = width;
  }
  const NodeId logits = builder.layer<Linear>({x}, "out", features, spec.classes);
  return finish_with_loss(builder, logits, target, spec);
}

const bool kRegistered = register_model({
    .name = "swish-mlp",
    .description = "linear layers with swish between them",
    .make = make_swish_mlp,
    .options = {{"width", 64}, {"depth", 3, ModelOption::Kind::count}},
    .use = {.tasks = {LearningTask::classification}},
});

}  // namespace
