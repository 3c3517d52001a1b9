// TorchScript modules written in tests, saved to a file and imported.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>

#include "../../zoo/run_model.h"
#include "base/random.h"
#include "model/import/import.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/mean_squared_error.h"

namespace trireme::test_support {

inline at::Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed) {
  const at::Tensor tensor = at::empty(sizes, at::kDouble);
  Philox random(random_key(seed, "test"));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<double>()[i] = random.normal(uint64_t(i));
  return tensor;
}

/// A file in the temporary folder; the destructor removes it.
class SavedModule {
 public:
  explicit SavedModule(const torch::jit::Module& module) {
    static int number = 0;
    path = std::filesystem::temp_directory_path() /
           ("trireme-import-" + std::to_string(getpid()) + "-" + std::to_string(++number) + ".pt");
    module.save(path.string());
  }
  ~SavedModule() { std::filesystem::remove(path); }
  SavedModule(const SavedModule&) = delete;
  SavedModule& operator=(const SavedModule&) = delete;

  std::filesystem::path path;
};

using Shapes = std::map<std::string, Shape>;
using Tensors = std::map<std::string, at::Tensor>;

/// A module of double numbers. `source` defines its methods; one is forward(self, x: Tensor).
inline torch::jit::Module make_module(const std::string& source, const Shapes& parameters = {},
                                      const Tensors& buffers = {},
                                      const std::map<std::string, torch::jit::Module>& children = {},
                                      const std::string& name = "Model") {
  torch::jit::Module module(name);
  module.register_attribute("training", c10::BoolType::get(), true);
  uint64_t seed = 100;
  for (const auto& [key, shape] : parameters)
    module.register_parameter(key, random_tensor(shape, ++seed).set_requires_grad(true), /*is_buffer=*/false);
  for (const auto& [key, tensor] : buffers) module.register_buffer(key, tensor);
  for (const auto& [key, child] : children) module.register_module(key, child);
  module.define(source);
  return module;
}

inline at::Tensor parameter_of(const torch::jit::Module& module, const std::string& name) {
  for (const auto& parameter : module.named_parameters())
    if (parameter.name == name) return parameter.value;
  throw std::logic_error("no parameter " + name);
}

/// A copy of the module to run, in double. Its parameters are leaves, as in the original.
inline torch::jit::Module copy_to_run(const torch::jit::Module& original, bool training) {
  const at::NoGradGuard no_grad;  // recorded copies would not be leaves
  torch::jit::Module copy = original.deepcopy();
  for (const auto& attribute : copy.named_attributes())
    if (attribute.value.isTensor() && attribute.value.toTensor().is_floating_point())
      at::Tensor(attribute.value.toTensor()).set_data(attribute.value.toTensor().to(at::kDouble));
  for (const auto& parameter : original.named_parameters())
    parameter_of(copy, parameter.name).set_requires_grad(parameter.value.requires_grad());
  copy.train(training);
  return copy;
}

/// A module to import, with a mean squared error over all its outputs for a sample.
struct Script {
  torch::jit::Module module;
  Shape sample;
  int64_t outputs = 1;  ///< number of outputs per sample
  int64_t vocabulary = 0;

  ImportedModel import() const {
    const SavedModule file(module);
    const auto target_shape = [this](const Shape&) { return Shape{outputs}; };
    const auto add = [](ModelBuilder& builder, NodeId output, NodeId target) {
      if (builder.shape(output).size() != 1) output = builder.layer<Flatten>({output}, "all outputs");
      return builder.layer<MeanSquaredError>({output, target}, "loss");
    };
    return import_torchscript(file.path, {sample, vocabulary}, {target_shape, add});
  }
};

inline std::vector<std::string> kinds_of(const Model& model) {
  std::vector<std::string> kinds;
  for (const Node& node : model.nodes())
    if (node.layer && node.name != "loss" && node.name != "all outputs") kinds.emplace_back(node.layer->kind());
  return kinds;
}

/// Runs a step of the imported model and of the module itself: outputs, losses and gradients must be equal.
inline ImportedModel expect_same_as_module(const Script& script, bool training = true, double tolerance = 1e-10) {
  constexpr int64_t kSamples = 4;
  ImportedModel imported = script.import();
  Shape sizes = script.sample;
  sizes.insert(sizes.begin(), kSamples);
  at::Tensor data = random_tensor(sizes, 7);
  if (script.vocabulary > 0) data = data.mul(1000).to(at::kLong).abs().remainder(script.vocabulary);
  const at::Tensor target = random_tensor({kSamples, script.outputs}, 8);

  torch::jit::Module module = copy_to_run(script.module, training);
  const c10::IValue returned = module.forward({data.clone()});  // a copy, because the module may write to it
  const at::Tensor output = returned.isTensor() ? returned.toTensor() : returned.toTupleRef().elements()[0].toTensor();
  const at::Tensor losses = (output.reshape({kSamples, -1}) - target).square().mean(1);
  losses.mean().backward();

  std::map<std::string, at::Tensor> state;
  for (const auto& [name, tensor] : imported.initial_values) state[name] = channels_last(tensor.clone());
  PlainRun run(imported.model, state);
  EXPECT_LT((run.forward(data, target, training) - losses.detach()).abs().max().item<double>(), tolerance);
  if (!training) return imported;
  const auto gradients = run.backward();
  int compared = 0;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value.grad().defined()) continue;
    const auto own = gradients.find(parameter.name);
    if (own == gradients.end()) {
      ADD_FAILURE() << "no gradient of " << parameter.name;
      continue;
    }
    ++compared;
    const at::Tensor expected = parameter.value.grad();
    EXPECT_LT((own->second.reshape(expected.sizes()) - expected).abs().max().item<double>(), tolerance)
        << parameter.name;
  }
  EXPECT_EQ(compared, int(imported.model.parameters().size()));
  return imported;
}

}  // namespace trireme::test_support
