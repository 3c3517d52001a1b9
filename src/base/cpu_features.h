// Instruction sets that the processor has, and those that the operating system lets this process use.
#pragma once

#include <string>

namespace trireme {

struct CpuFeature {
  bool reported = false;  ///< the processor has it
  bool usable = false;    ///< also: the operating system saves its registers and grants them to this process
};

struct CpuFeatures {
  std::string model;  ///< "Intel(R) Xeon(R) Processor", "" where unknown
  CpuFeature avx2, avx512, avx512_bf16, amx_bf16;
};

/// All false on processors that are not x86-64.
CpuFeatures cpu_features();

}  // namespace trireme
