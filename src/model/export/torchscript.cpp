#include "model/export/torchscript.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "model/export/script_source.h"
#include "model/import/script_file.h"
#include "model/weights/file_shapes.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using torch::jit::Module;

/// Nested modules, one for each part of dotted names. A module's type is fixed when it is registered, so inner modules
/// are created first.
struct Folder {
  std::map<std::string, Folder> inner;
  std::map<std::string, at::Tensor> parameters, buffers;

  void add(std::string_view name, const at::Tensor& tensor, std::map<std::string, at::Tensor> Folder::*kind) {
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) (this->*kind)[std::string(name)] = tensor;
    else inner[std::string(name.substr(0, dot))].add(name.substr(dot + 1), tensor, kind);
  }
};

Module make_module(const Folder& folder, const std::string& name,
                   const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  Module module(name, unit, /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& [part, inner] : folder.inner) module.register_module(part, make_module(inner, name + "_part", unit));
  for (const auto& [part, tensor] : folder.parameters) module.register_parameter(part, tensor, /*is_buffer=*/false);
  for (const auto& [part, tensor] : folder.buffers) module.register_parameter(part, tensor, /*is_buffer=*/true);
  return module;
}

Module script_module(const Model& model, const TensorMap& weights) {
  const std::string source = script_source(model);  // first, so that its errors occur before any copy
  const TensorMap in_file = in_file_shapes(model, weights);
  const auto tensor = [&](const std::string& name) { return in_file.at(name).clone(at::MemoryFormat::Contiguous); };
  Folder root;
  for (const ParameterSpec& spec : model.parameters())
    root.add(spec.name, tensor(spec.name).set_requires_grad(true), &Folder::parameters);
  for (const BufferSpec& spec : model.buffers()) root.add(spec.name, tensor(spec.name), &Folder::buffers);
  Module module = make_module(root, "__torch__.trireme.Model", std::make_shared<torch::jit::CompilationUnit>());
  try {
    module.define(source);
  } catch (const std::exception& error) {
    check_internal(false, fmt::format("libtorch takes the source of model \"{}\": {}", model.name(), error.what()));
  }
  return module;
}

void save(const Module& module, const std::filesystem::path& path) {
  AtomicFile file(path);
  torch::jit::ExportModule(module, [&](const void* bytes, size_t size) {
    file.write({static_cast<const char*>(bytes), size});
    return size;
  });
  file.commit();
}

void give(const TensorMap& weights, const TensorMap& to, const std::filesystem::path& source) {
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : to) {
    const auto given = weights.find(name);
    if (given == weights.end()) continue;
    if (given->second.sizes() != tensor.sizes())
      fail_user({.where = source.string(),
                 .what = fmt::format("its parameter {}", name),
                 .why = "its shape differs from the model's",
                 .next = "name the file that the model was imported from"});
    tensor.copy_(given->second);
  }
}

}  // namespace

void write_torchscript(const std::filesystem::path& path, const Model& model, const TensorMap& weights) {
  save(script_module(model, weights), path);
}

void write_torchscript(const std::filesystem::path& path, const std::filesystem::path& source, const Model& model,
                       const TensorMap& weights) {
  const torchscript::ScriptFile file = torchscript::load_script(source);
  const TensorMap in_file = in_file_shapes(model, weights);
  give(in_file, file.parameters, source);
  give(in_file, file.buffers, source);
  Module module = *file.module;  // the same object, not a copy
  module.eval();
  save(module, path);
}

}  // namespace trireme
