// What this process runs on: cores, memory, instruction sets and the libraries that determine libtorch's speed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_features.h"

namespace trireme {

/// The library that computes libtorch's float32 matrix products.
struct Blas {
  enum class Kind { openblas, mkl, reference, other };
  Kind kind = Kind::other;
  std::string name;      ///< "OpenBLAS", "MKL", "reference BLAS", else the library's file name
  std::string library;   ///< path of the mapped file, "" if it is part of libtorch itself
  std::string made_for;  ///< the processor that OpenBLAS's chosen code is made for, "Haswell"; "" if not known
  double gflops = 0;     ///< one 512x512 float32 product with the threads of the calling thread; 0: not timed
};

struct Malloc {
  bool returns_memory = true;  ///< true for glibc: it returns a step's memory to the system and faults it in again
  std::string name;            ///< "glibc", "tcmalloc", "jemalloc", else the library's file name
};

struct Machine {
  int cores = 1;         ///< usable by this process at once (affinity mask and control group's quota), at least 1
  int cores_online = 1;  ///< of the machine
  int numa_nodes = 1;
  int packages = 1;
  int64_t memory_bytes = 0;        ///< usable by this process: the machine's or its control group's
  int64_t memory_total_bytes = 0;  ///< of the machine
  CpuFeatures cpu;
  std::string libtorch;  ///< "1.13.1"
  std::string onednn;    ///< "2.7.2", "" if libtorch has none
  Blas blas;
  Malloc malloc;
  int operation_threads = 1;  ///< libtorch's initial number of threads per operation
  int gpus = 0;
  std::optional<std::string> mpi;  ///< path of mpirun
};

/// Takes milliseconds with an optimised BLAS, about a second with a very slow one. Without `time_product`, no matrix
/// product is timed.
Machine inspect_machine(bool time_product = true);

/// Returns what will be slow and what to do about it, one line each. Empty on a well set-up machine.
std::vector<std::string> slow_warnings(const Machine& machine);

/// Returns the machine's host name, or "" if the system does not tell it.
std::string host_name();

/// "2 cores, AVX-512, AMX, 23.4 GiB; libtorch 1.13.1"
std::string summary(const Machine& machine);

}  // namespace trireme
