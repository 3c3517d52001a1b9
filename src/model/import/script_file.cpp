#include "model/import/script_file.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "model/weights/torch_archive.h"
#include "model/weights/zip_checksums.h"

namespace trireme::torchscript {
namespace {

// every TorchScript archive has this record, no other file of PyTorch's has it
constexpr const char* kConstants = "constants.pkl";

void check_is_script(const std::filesystem::path& path) {
  constexpr const char* kHowTo =
      "in Python: torch.jit.script(module).save(\"model.pt\"), or torch.jit.trace(module, example).save(...)";
  constexpr std::string_view kZip = "PK";
  std::array<char, kZip.size()> start{};
  const InputFile file(path);
  file.read(0, start.data(), std::min<uint64_t>(start.size(), file.size()));
  const bool is_zip = std::string_view(start.data(), start.size()) == kZip || !zip_checksums(path).empty();
  if (!is_zip)
    fail_user({.where = path.string(),
               .what = "is not a TorchScript file",
               .why = "TorchScript files are zip archives, which start with \"PK\" and end with a directory: this file "
                      "does neither",
               .next = std::string(kHowTo) + "; if this was a TorchScript file, it is damaged: get it again"});
  if (TorchArchive(path).has(kConstants)) return;
  fail_user({.where = path.string(),
             .what = "holds weights or a pickled module, but no TorchScript",
             .why = "a model of your own must be a module with its code",
             .next = kHowTo});
}

torch::jit::Module load(const std::filesystem::path& path) {
  try {
    return torch::jit::load(path.string(), c10::Device(c10::kCPU));
  } catch (const std::exception& error) {
    fail_user({.where = path.string(),
               .what = "cannot be loaded as TorchScript",
               .why = first_line(error),
               .next = "save it with a version of PyTorch that is no newer than this build's libtorch, without "
                       "operators of extensions"});
  }
}

/// Converts half precision to float32. Integers stay integers. (Module::to would also convert numbers to other floating
/// types.)
void widen(const torch::jit::Module& module) {
  for (const auto& attribute : module.named_attributes()) {
    if (!attribute.value.isTensor() || !attribute.value.toTensor().defined()) continue;
    at::Tensor tensor = attribute.value.toTensor();
    if (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16)
      tensor.set_data(tensor.to(at::kFloat));
  }
}

/// "layer1.0" of "layer1.0.conv1", "" of "conv1".
std::string parent_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

void collect(ScriptFile& file) {
  std::set<const void*> seen;
  for (const auto& parameter : file.module->named_parameters()) {
    if (!seen.insert(parameter.value.unsafeGetTensorImpl()).second) continue;
    file.parameters[parameter.name] = parameter.value.detach();
    file.order.push_back(parameter.name);
    if (!parameter.value.requires_grad()) file.frozen.push_back(parameter.name);
    if (parameter.name.find('.') != std::string::npos) file.inner_modules.insert(parent_of(parameter.name));
  }
  for (const auto& buffer : file.module->named_buffers())
    if (buffer.value.defined() && seen.insert(buffer.value.unsafeGetTensorImpl()).second)
      file.buffers[buffer.name] = buffer.value.detach();
  for (const auto& child : file.module->named_modules())
    if (!child.name.empty()) file.inner_modules.insert(parent_of(child.name));
}

at::ScalarType dtype_of(const ScriptFile& file) {
  for (const std::string& name : file.order)
    if (at::isFloatingType(file.parameters.at(name).scalar_type())) return file.parameters.at(name).scalar_type();
  fail_user({.where = file.path.string(),
             .what = "a module without parameters",
             .why = "there is nothing to train (torch.jit.freeze and optimize_for_inference make constants of them)",
             .next = "save the module before these functions change it"});
}

}  // namespace

ScriptFile load_script(const std::filesystem::path& path) {
  check_is_script(path);
  const c10::InferenceMode ordinary(false);
  const at::NoGradGuard no_grad;
  ScriptFile file;
  file.path = path;
  const torch::jit::Module module = load(path);
  widen(module);
  file.module = std::make_shared<const torch::jit::Module>(module);
  collect(file);
  file.dtype = dtype_of(file);
  return file;
}

std::string place_of(const torch::jit::Node& node) {
  torch::jit::SourceRange range = node.sourceRange();
  if (const auto original = range.findSourceRangeThatGenerated()) range = *original;
  const auto place = range.file_line_col();
  const std::string kind = node.kind().toQualString();
  if (!place || std::get<0>(*place).empty()) return kind;
  return fmt::format("{} at {}:{}", kind, std::get<0>(*place), std::get<1>(*place));
}

void fail_at(const std::filesystem::path& file, const torch::jit::Node& node, std::string why, std::string next) {
  fail_user({.where = file.string(), .what = place_of(node), .why = std::move(why), .next = std::move(next)});
}

}  // namespace trireme::torchscript
