// The parameters and buffers of a TorchScript archive, found without loading its code.
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

/// Of the module `root` and all modules below it: what their classes' code lists in __parameters__ and __buffers__;
/// where a class lists nothing (archives from before PyTorch 1.6), every attribute. A module that two modules share
/// comes under both names. User error where modules hold each other in a circle or are more than any real model has.
std::vector<ScriptAttribute> script_attributes(const PickleValue& root, TorchArchive& archive,
                                               const std::filesystem::path& path);

}  // namespace trireme
