// Compiled if libonnx was not found.
#include "model/export/onnx.h"
#include "trireme/error.h"

namespace trireme {

void write_onnx(const std::filesystem::path& path, const Model&, const TensorMap&, const InputForm*, bool) {
  fail_user({.where = path.string(),
             .what = "cannot be written",
             .why = "this Trireme was built without libonnx",
             .next = "install libonnx-dev and build Trireme again, or export as TorchScript"});
}

}  // namespace trireme
