// Identifies the machine and software on which a profile was measured.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

/// Profiles with equal fingerprints may be merged.
struct Fingerprint {
  std::string cpu;     ///< "AMD EPYC, AVX-512"
  int cores = 0;       ///< cores that workers may use
  int64_t memory = 0;  ///< bytes
  std::string libtorch, onednn, blas, malloc;
  int threads = 1;       ///< intra-op threads of a worker
  int gpus = 0;          ///< that workers compute on; 0: on cores
  std::string gpu = {};  ///< their kind and CUDA's versions

  /// The number of workers that compute at the same time without sharing a core or a GPU.
  int places() const { return gpus > 0 ? gpus : cores; }
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// The fingerprint of this machine and process, with the GPUs on which its devices are placed now.
Fingerprint fingerprint_of_this_machine(int threads = 1);

/// The differences as text: "cores 4, here 2"; empty if there are none. A small difference in memory is ignored.
std::string difference(const Fingerprint& measured, const Fingerprint& here);

/// Throws a user error if `where`, a profile measured on `measured`, is of a machine other than `here`. The error lists
/// the differences and what to do.
void check_same_machine(const Fingerprint& measured, const Fingerprint& here, const std::string& where);

}  // namespace trireme
