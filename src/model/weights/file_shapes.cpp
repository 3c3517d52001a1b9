#include "model/weights/file_shapes.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

TensorMap in_file_shapes(const Model& model, const TensorMap& weights) {
  const auto weight = [&](const std::string& name) {
    const auto found = weights.find(name);
    check_internal(found != weights.end(),
                   fmt::format("the weights of model \"{}\" are whole, \"{}\" is among them", model.name(), name));
    return found->second;
  };
  TensorMap in_file;
  for (const ParameterSpec& spec : model.parameters())
    in_file[spec.name] = spec.file_shape.empty() ? weight(spec.name) : weight(spec.name).reshape(spec.file_shape);
  for (const BufferSpec& spec : model.buffers()) in_file[spec.name] = weight(spec.name);
  return in_file;
}

}  // namespace trireme
