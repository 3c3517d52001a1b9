// ONNX's own checker and shape inference.
#pragma once

#include <filesystem>

namespace trireme::test_support {

/// Throws where a file breaks ONNX's rules, or where the shapes that its nodes give are not those that it states.
void check_onnx(const std::filesystem::path& path);

}  // namespace trireme::test_support
