// On what a profile was measured.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

/// Two profiles of equal fingerprints may be put together.
struct Fingerprint {
  std::string cpu;     ///< "AMD EPYC, AVX-512"
  int cores = 0;       ///< that workers may use
  int64_t memory = 0;  ///< bytes
  std::string libtorch, onednn, blas, malloc;
  int threads = 1;  ///< of a worker's operators
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// Of this machine and process.
Fingerprint fingerprint_of_this_machine(int threads = 1);

/// What differs, in words: "cores 4, here 2"; empty: nothing. A little more or less memory is no difference.
std::string difference(const Fingerprint& measured, const Fingerprint& here);

/// Errors (user): `where`, a profile measured on `measured`, is of another machine than `here`: what differs and what
/// to do.
void check_same_machine(const Fingerprint& measured, const Fingerprint& here, const std::string& where);

}  // namespace trireme
