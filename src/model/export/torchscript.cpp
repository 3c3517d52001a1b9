#include "model/export/torchscript.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>

#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

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

// Constants are on the CPU and are copied to the device of the data. Only the dtypes of `input_float` and `input_type`
// are used.
constexpr const char* kRawImages = R"(def forward(self, data):
    mean = self.input_mean.to(data.device)
    numbers = (data.to(mean.dtype) / 255.0 - mean) / self.input_deviation.to(data.device)
    return self.model.forward(numbers.to(self.input_float.dtype).to(self.input_type.dtype))
)";

constexpr const char* kRawTable = R"(def forward(self, data):
    mean = self.input_mean.to(data.device)
    x = torch.index_select(data.to(mean.dtype), 1, self.input_column.to(data.device))
    missing = torch.isnan(x)
    number = (torch.where(missing, self.input_median.to(data.device), x) - mean) / self.input_deviation.to(data.device)
    mark = torch.where(self.input_is_category.to(data.device), x == self.input_code.to(data.device), missing)
    numbers = torch.where(self.input_is_number.to(data.device), number, mark.to(mean.dtype))
    return self.model.forward(numbers.to(self.input_float.dtype).to(self.input_type.dtype))
)";

at::Tensor tensor_of(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }
at::Tensor truths(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong).to(at::kBool); }

/// Returns a module that gives `model` the numbers that raw values become. Constants are attributes, not buffers: they
/// are no part of the state_dict.
Module with_raw_inputs(const Module& model, const InputForm& form, at::ScalarType type) {
  Module module("__torch__.trireme.RawModel", model._ivalue()->compilation_unit(), /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  module.register_module("model", model);
  const auto keep = [&](const char* name, const at::Tensor& tensor) {
    module.register_attribute(fmt::format("input_{}", name), c10::TensorType::get(), tensor);
  };
  keep("type", at::empty({0}, type));
  keep("float", at::empty({0}, at::kFloat));
  if (form.is_table()) {
    const TableFeatures all = features_of(form);
    keep("column", at::tensor(all.column, at::kLong));
    keep("median", tensor_of(all.median));
    keep("mean", tensor_of(all.mean));
    keep("deviation", tensor_of(all.deviation));
    keep("code", tensor_of(all.code));
    keep("is_number", truths(all.is_number));
    keep("is_category", truths(all.is_category));
  } else {
    keep("mean", tensor_of(form.mean).view({-1, 1, 1}));
    keep("deviation", tensor_of(form.deviation).view({-1, 1, 1}));
  }
  try {
    module.define(form.is_table() ? kRawTable : kRawImages);
  } catch (const std::exception& error) {
    check_internal(false, fmt::format("libtorch takes the source of raw inputs: {}", error.what()));
  }
  return module;
}

void save(const Module& model, const InputForm* inputs, bool raw, at::ScalarType type,
          const std::filesystem::path& path) {
  torch::jit::ExtraFilesMap extra;
  if (inputs) extra[kInputsKey] = to_json(*inputs).dump();
  const Module module = inputs && raw ? with_raw_inputs(model, *inputs, type) : model;
  AtomicFile file(path);
  std::exception_ptr failure;  // libtorch's writer writes in its destructor too, from which nothing may be thrown
  torch::jit::ExportModule(
      module,
      [&](const void* bytes, size_t size) {
        try {
          if (!failure) file.write({static_cast<const char*>(bytes), size});
        } catch (...) {
          failure = std::current_exception();
        }
        return size;
      },
      extra);
  if (failure) std::rethrow_exception(failure);
  file.commit();
}

/// Returns the dtype of the data that a module with these weights takes.
at::ScalarType type_of(const TensorMap& weights) {
  for (const auto& [name, tensor] : weights)
    if (tensor.is_floating_point()) return tensor.scalar_type();
  return at::kFloat;
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

void write_torchscript(const std::filesystem::path& path, const Model& model, const TensorMap& weights,
                       const InputForm* inputs, bool raw) {
  save(script_module(model, weights), inputs, raw, type_of(weights), path);
}

void write_torchscript(const std::filesystem::path& path, const std::filesystem::path& source, const Model& model,
                       const TensorMap& weights, const InputForm* inputs, bool raw) {
  const torchscript::ScriptFile file = torchscript::load_script(source);
  const TensorMap in_file = in_file_shapes(model, weights);
  give(in_file, file.parameters, source);
  give(in_file, file.buffers, source);
  Module module = *file.module;  // the same object, not a copy
  module.eval();
  TensorMap numbers = file.parameters;
  numbers.insert(file.buffers.begin(), file.buffers.end());
  save(module, inputs, raw, type_of(numbers), path);
}

}  // namespace trireme
