// Finds the parameters and buffers of a TorchScript archive without loading its code.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/weights/pickle.h"
#include "model/weights/torch_archive.h"

namespace trireme {

struct ScriptAttribute {
  std::string name;  ///< "layer1.0.conv1.weight"
  const PickleValue* value;
};

/// Returns the attributes of the module `root` and of all modules in it: those that the code of their classes lists in
/// __parameters__ and __buffers__. If a class lists nothing (archives from before PyTorch 1.6): every attribute. A
/// module that two modules share appears under both names. Throws a user error if modules contain each other in a cycle
/// or are more than any real model has.
std::vector<ScriptAttribute> script_attributes(const PickleValue& root, TorchArchive& archive,
                                               const std::filesystem::path& path);

}  // namespace trireme
