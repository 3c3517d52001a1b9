// Exports named models to formats of other programs. tests/train/oracle_export.py checks what the exports compute.
#include <gmock/gmock.h>

#include "../base/expect_error.h"
#include "model/export/script_source.h"
#include "model/export/writers.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/mean_squared_error.h"
#include "zoo/spec_text.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

/// One spec for each name, with default options.
std::vector<ModelSpec> all_specs() {
  using enum LearningTask;
  std::vector<ModelSpec> specs;
  for (const std::string& name : model_names()) {
    ModelSpec spec{.name = name, .sample_shape = {3, 64, 64}, .classes = 10, .options = {}};
    if (name == "inception-v3") spec.sample_shape = {3, 299, 299};
    if (name == "mnist-convnet") spec.sample_shape = {1, 28, 28};
    if (name == "vit-b16") spec.sample_shape = {3, 224, 224};
    if (name == "big-lstm") spec.options = {{"samples", 4}};
    if (name == "gnmt") spec.options = {{"width", 16}};
    for (LearningTask task : {translation, language, segmentation, classification})
      if (does(name, task, reads_tokens(name))) spec.task = task;
    if (reads_tokens(name)) {
      spec.sample_shape = {12};
      spec.vocabulary = 10;
      if (spec.task == language) spec.target_shape = {12};
      if (spec.task == translation) spec.target_shape = {5};
    }
    if (spec.task == segmentation) spec.target_shape = {64, 64};
    specs.push_back(spec);
  }
  return specs;
}

TEST(SpecText, IsReadBackWithAllOptions) {
  for (const ModelSpec& spec : all_specs()) {
    const ModelSpec read = spec_from_text(to_text(spec), "x.safetensors");
    EXPECT_EQ(make_model(read).fingerprint(), make_model(spec).fingerprint()) << spec.name;
    EXPECT_EQ(read.options.size(), model_options(spec.name).size()) << "defaults may change";
    EXPECT_EQ(to_text(read), to_text(spec));
    EXPECT_EQ(to_text(spec).find('\n'), std::string::npos);
  }
}

TEST(SpecText, RefusesWhatItDidNotWrite) {
  for (const char* text : {"", "{", "[]", "{\"name\": \"mlp\"}", "{\"name\": 3}"})
    expect_error(Blame::user, {"x.safetensors", "description of the model cannot be read"},
                 [&] { spec_from_text(text, "x.safetensors"); });
}

TEST(ScriptSource, ReadsEveryNamedModel) {
  for (const ModelSpec& spec : all_specs()) {
    const Model model = make_model(spec);
    const std::string source = script_source(model);
    EXPECT_THAT(source, HasSubstr("def forward(self, data: Tensor) -> Tensor:\n")) << spec.name;
    for (const ParameterSpec& parameter : model.parameters())
      if (parameter.name.find("Aux") == std::string::npos) {
        EXPECT_THAT(source, HasSubstr(script_path(parameter.name))) << spec.name;
      }
  }
}

TEST(ScriptSource, NamesPartsThatAreNoIdentifiers) {
  EXPECT_EQ(script_path("class_token"), "self.class_token");
  EXPECT_EQ(script_path("layer1.0.conv1.weight"), "getattr(self.layer1, \"0\").conv1.weight");
}

/// A layer of a kind that no exporter knows.
class Strange final : public Layer {
 public:
  using Layer::Layer;
  std::string_view kind() const override { return "strange"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::vector<ShardingOption> sharding_options(std::span<const Shape>, int) const override {
    return {{.name = "replicate"}};
  }
  double forward_flops(std::span<const Shape>) const override { return 0; }
  at::Tensor forward(LayerCall&, std::span<const at::Tensor> inputs) const override { return inputs[0]; }
  std::vector<at::Tensor> backward(LayerCall&, const at::Tensor& gradient) const override { return {gradient}; }
};

TEST(ScriptSource, RefusesWhatItCannotSay) {
  ModelBuilder b("strange model");
  NodeId data = b.input("data", {4}), target = b.input("target", {4});
  const NodeId x = b.layer<Strange>({data}, "odd one");
  const Model model = b.finish(x, b.layer<MeanSquaredError>({x, target}, "loss"));
  expect_error(Blame::user, {"layer \"odd one\"", "strange", "no counterpart in TorchScript", "safetensors"},
               [&] { script_source(model); });

  ModelBuilder c("leaking");
  data = c.input("data", {4});
  target = c.input("target", {4});
  const NodeId y = c.layer<Linear>({target}, "fc", 4, 4);
  const Model leaking = c.finish(y, c.layer<MeanSquaredError>({y, target}, "loss"));
  expect_error(Blame::user, {"leaking", "its output depends on \"target\""}, [&] { script_source(leaking); });
}

}  // namespace
}  // namespace trireme
