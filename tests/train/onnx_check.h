// ONNX's checker and shape inference.
#pragma once

#include <filesystem>

namespace trireme::test_support {

/// Throws if a file breaks ONNX's rules, or if inferred shapes differ from those that it states.
void check_onnx(const std::filesystem::path& path);

}  // namespace trireme::test_support
