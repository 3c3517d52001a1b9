// A loaded TorchScript file: the module, and its parameters and buffers by name.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trireme/error.h"
#include "trireme/model.h"

namespace torch::jit {
struct Module;
struct Node;
}  // namespace torch::jit

namespace trireme::torchscript {

struct ScriptFile {
  std::filesystem::path path;
  /// The file's module, on the CPU. Must not be run, because runs change buffers; run copies.
  std::shared_ptr<const torch::jit::Module> module;
  TensorMap parameters, buffers;        ///< by qualified name; a shared tensor has its first name
  std::vector<std::string> order;       ///< names of the parameters, in the module's order
  std::vector<std::string> frozen;      ///< parameters that the file marks as not trainable (requires_grad == False)
  std::set<std::string> inner_modules;  ///< modules that contain modules or parameters; "" for the module itself
  at::ScalarType dtype = at::kFloat;    ///< dtype of the first floating parameter
};

/// Loads a file. Numbers become float32 (also half precision and bfloat16) or stay float64. Throws user errors: no
/// TorchScript (a state dict, any other file); operators that this build of libtorch does not know; a module without
/// parameters (a frozen one).
ScriptFile load_script(const std::filesystem::path& path);

/// Returns where a node is in the source: "aten::roll at models/swin.py:123", or "prim::If" if the file does not say.
std::string place_of(const torch::jit::Node& node);

/// Throws a user error about a node of a file.
[[noreturn]] void fail_at(const std::filesystem::path& file, const torch::jit::Node& node, std::string why,
                          std::string next);

}  // namespace trireme::torchscript
