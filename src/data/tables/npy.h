// Arrays in NumPy's formats: .npy (one array) and .npz (a zip of them).
// Source: NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays", and numpy.lib.format (versions 1.0
// to 3.0).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/placement.h"

namespace trireme {

/// The header of a .npy.
struct NpyHeader {
  at::ScalarType type = at::kFloat;
  bool big_endian = false;
  bool fortran_order = false;  ///< true: the first index runs fastest
  Shape shape;
  size_t data_begin = 0;  ///< bytes before the values
};

/// Reads the header at the front of `bytes`. `where`: the file's name in messages. User errors, with the byte: not a
/// .npy; an unknown version; a header that is cut short, or that is not a dictionary with descr, fortran_order and
/// shape; a dtype that tensors do not have (they have f2, f4, f8, i1, i2, i4, i8, u1 and b1); a shape of more than 2^48
/// bytes.
NpyHeader parse_npy_header(std::span<const uint8_t> bytes, const std::string& where);

/// Returns a whole .npy as a new contiguous tensor. User errors in addition to the header's: more or fewer bytes than
/// the header states.
at::Tensor parse_npy(std::span<const uint8_t> bytes, const std::string& where);
at::Tensor read_npy(const std::filesystem::path& file);

/// Returns the arrays of an .npz, stored or deflated, by name without ".npy", in the order of the archive. User errors:
/// not a zip; a damaged entry; an entry that is not a .npy; those of parse_npy.
std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::filesystem::path& file);

}  // namespace trireme
