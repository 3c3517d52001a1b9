// The idx format of MNIST: a big-endian magic number 00 00 type ndim, ndim 32-bit lengths, then the values.
// Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits". Only unsigned bytes occur there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/images/image_dataset.h"

namespace trireme {

struct IdxArray {
  std::vector<int64_t> lengths;
  std::vector<uint8_t> values;  ///< row-major
};

/// Reads an idx file of unsigned bytes with `dims` dimensions, gzipped or plain (by its content, not its name). `set`:
/// the data set that messages advise to get again. User errors: a missing or unreadable file; a corrupt or cut gzip
/// stream (with the byte position in the compressed file); a wrong magic number; more or fewer bytes than the header
/// states.
IdxArray read_idx(const std::filesystem::path& file, int dims, const std::string& set);

/// As read_idx, for the bytes of a file. `file`: its name in messages.
IdxArray parse_idx(std::vector<uint8_t> bytes, const std::filesystem::path& file, int dims, const std::string& set);

/// Reads grey images and their labels. User errors in addition to read_idx's: different numbers of images and labels; a
/// label that is not below `classes`; no images.
Images read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels, int64_t classes,
                       const std::string& set);

}  // namespace trireme
