#include "profile/fingerprint.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/machine.h"
#include "base/text.h"
#include "base/units.h"
#include "profile/measured_devices.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// The memory limit of a control group or a kernel may change from start to start.
constexpr double kMemoryTolerance = 0.05;

std::string cpu_of(const CpuFeatures& cpu) {
  std::vector<std::string> words{cpu.model.empty() ? "unknown processor" : cpu.model};
  if (cpu.avx2.usable) words.push_back("AVX2");
  if (cpu.avx512.usable) words.push_back("AVX-512");
  if (cpu.avx512_bf16.usable) words.push_back("AVX-512 BF16");
  if (cpu.amx_bf16.usable) words.push_back("AMX BF16");
  return join(words);
}

}  // namespace

Fingerprint fingerprint_of_this_machine(int threads) {
  const Machine machine = inspect_machine(/*time_product=*/false);
  const MeasuredDevices devices = measured_devices();
  return {.cpu = cpu_of(machine.cpu),
          .cores = machine.cores,
          .memory = machine.memory_bytes,
          .libtorch = machine.libtorch,
          .onednn = machine.onednn,
          .blas = machine.blas.name,
          .malloc = machine.malloc.name,
          .threads = threads,
          .gpus = devices.gpus,
          .gpu = devices.gpu};
}

std::string difference(const Fingerprint& measured, const Fingerprint& here) {
  std::vector<std::string> found;
  auto compare = [&](const char* what, const auto& theirs, const auto& ours) {
    if (theirs != ours) found.push_back(fmt::format("{} {}, here {}", what, theirs, ours));
  };
  compare("CPU", measured.cpu, here.cpu);
  compare("cores", measured.cores, here.cores);
  compare("libtorch", measured.libtorch, here.libtorch);
  compare("oneDNN", measured.onednn, here.onednn);
  compare("BLAS", measured.blas, here.blas);
  compare("malloc", measured.malloc, here.malloc);
  compare("threads per worker", measured.threads, here.threads);
  compare("GPUs", measured.gpus, here.gpus);
  if (measured.gpus > 0 && here.gpus > 0) compare("GPU", measured.gpu, here.gpu);
  if (std::abs(double(measured.memory - here.memory)) > kMemoryTolerance * double(here.memory))
    found.push_back(fmt::format("memory {}, here {}", format_bytes(measured.memory), format_bytes(here.memory)));
  return join(found, "; ");
}

void check_same_machine(const Fingerprint& measured, const Fingerprint& here, const std::string& where) {
  const std::string differs = difference(measured, here);
  if (differs.empty()) return;
  fail_user({where, "is a profile of another machine", differs,
             "measure this one: trireme profile EXPERIMENT --out ANOTHER_FILE"});
}

}  // namespace trireme
