// As Debian's libonnx was built.
#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include "onnx_check.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <fstream>
#include <stdexcept>

namespace trireme::test_support {

void check_onnx(const std::filesystem::path& path) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  if (!model.ParseFromIstream(&file)) throw std::runtime_error(path.string() + " is no ONNX model");
  onnx::checker::check_model(model);
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                     {/*check_type*/ true, /*error_mode*/ 1, /*data_propagation*/ true});
}

}  // namespace trireme::test_support
