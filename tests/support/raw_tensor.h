// Tensors as raw bytes in files, for tests that exchange them with Python.
#pragma once

#include <ATen/ATen.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace trireme::test_support {

/// Throws if the file does not have exactly the bytes of the tensor.
inline at::Tensor read_raw(const std::string& path, at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor t = at::empty(sizes, type);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(static_cast<char*>(t.data_ptr()), std::streamsize(t.nbytes())) || file.peek() != EOF)
    throw std::runtime_error(path + " has not " + std::to_string(t.nbytes()) + " bytes");
  return t;
}

inline void write_raw(const std::string& path, const at::Tensor& tensor) {
  at::Tensor t = tensor.contiguous();
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(t.data_ptr()), std::streamsize(t.nbytes()));
}

}  // namespace trireme::test_support
