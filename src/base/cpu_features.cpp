#include "base/cpu_features.h"

#include <cstdint>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trireme {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// All zero where the processor does not have the leaf.
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

bool bit(uint64_t word, int index) { return ((word >> index) & 1) != 0; }

/// XCR0: the register states that the operating system saves when it switches threads (Intel SDM, volume 1, 13.3).
uint64_t saved_states() {
  constexpr int kOsxsave = 27;
  if (!bit(cpuid(1, 0).c, kOsxsave)) return 0;
  uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

/// Linux grants the 8 KiB of AMX tiles only to processes that request them (Documentation/x86/xstate.rst). libtorch's
/// oneDNN makes the same request, so requesting it here changes nothing.
bool amx_granted() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures x86_features() {
  constexpr uint64_t kAvxStates = 0x6, kAvx512States = 0xE6, kTileStates = 0x60000;
  const Registers seven = cpuid(7, 0), seven_one = cpuid(7, 1);
  const uint64_t saved = saved_states();
  auto feature = [&](bool reported, uint64_t states) {
    return CpuFeature{reported, reported && (saved & states) == states};
  };
  CpuFeatures features;
  // together with FMA: kernels use both
  features.avx2 = feature(bit(seven.b, 5) && bit(cpuid(1, 0).c, 12), kAvxStates);
  // F, DQ, BW and VL: what libtorch and oneDNN mean by AVX-512
  features.avx512 =
      feature(bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31), kAvx512States);
  features.avx512_bf16 = feature(bit(seven_one.a, 5), kAvx512States);
  features.amx_bf16 = feature(bit(seven.d, 22) && bit(seven.d, 24), kTileStates);
  if (features.amx_bf16.usable) features.amx_bf16.usable = amx_granted();
  return features;
}

#else

CpuFeatures x86_features() { return {}; }

#endif

}  // namespace

CpuFeatures cpu_features() {
  CpuFeatures features = x86_features();
  features.model = model_name();
  return features;
}

}  // namespace trireme
