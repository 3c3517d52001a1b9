// A TorchScript file, loaded: the module, and its parameters and buffers by their names.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trireme/error.h"
#include "trireme/tensor_map.h"

namespace torch::jit {
struct Module;
struct Node;
}  // namespace torch::jit

namespace trireme::torchscript {

struct ScriptFile {
  std::filesystem::path path;
  std::shared_ptr<const torch::jit::Module>
      module;                       ///< as the file has it, on the CPU; not to be run (runs change buffers): run copies
  TensorMap parameters, buffers;    ///< by qualified name, a shared tensor by its first one
  std::vector<std::string> order;   ///< of the parameters, as the module lists them
  std::vector<std::string> frozen;  ///< parameters that the file says are not to be trained (requires_grad == False)
  std::set<std::string> inner_modules;  ///< those with modules or parameters in them; "" for the module itself
  at::ScalarType dtype = at::kFloat;    ///< of its numbers: that of the first floating parameter
};

/// Loads a file, its numbers in float32 (those in half precision or bfloat16 too) or float64. User errors: no
/// TorchScript in it (a state dict, any other file), operators that this build of libtorch does not know, a module
/// without parameters (a frozen one).
ScriptFile load_script(const std::filesystem::path& path);

/// Where a node came from: "aten::roll at models/swin.py:123", "prim::If" where the file does not say.
std::string place_of(const torch::jit::Node& node);

/// User error at a node of a file.
[[noreturn]] void fail_at(const std::filesystem::path& file, const torch::jit::Node& node, std::string why,
                          std::string next);

}  // namespace trireme::torchscript
