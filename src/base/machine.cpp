#include "base/machine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "base/cgroup.h"
#include "base/cores.h"
#include "base/counted.h"
#include "base/seconds.h"
#include "base/units.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

int count_numa_nodes() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/node", ignored)) {
    const std::string name = entry.path().filename();
    count += name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos ? 1 : 0;
  }
  return std::max(1, count);
}

int count_packages() {
  std::set<int> packages;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/devices/system/cpu", ignored)) {
    std::ifstream file(entry.path() / "topology" / "physical_package_id");
    if (int id = 0; file >> id) packages.insert(id);
  }
  return std::max(1, int(packages.size()));
}

/// Returns the file of the function that every library of this process calls under this name, or "" if none exports it.
std::string library_of(const char* function) {
  void* address = ::dlsym(RTLD_DEFAULT, function);
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code failed;
  fs::path path = fs::canonical(info.dli_fname, failed);
  return failed ? info.dli_fname : path.string();
}

/// Returns the processor that OpenBLAS's chosen code is made for; "" if the library does not tell.
std::string openblas_processor() {
  using Name = char* (*)();
  const auto name = reinterpret_cast<Name>(::dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const char* text = name ? name() : nullptr;
  return text ? text : "";
}

/// True if OpenBLAS's code for this processor uses AVX2 (its list of targets, TargetList.txt).
bool uses_avx2(std::string processor) {
  std::transform(processor.begin(), processor.end(), processor.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const char* newer : {"haswell", "zen", "excavator", "skylakex", "cooperlake", "sapphirerapids"})
    if (processor == newer) return true;
  return false;
}

bool is_mapped(std::string_view part_of_name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (fs::path(line.substr(std::min(line.size(), line.rfind(' ') + 1))).filename().string().find(part_of_name) !=
        std::string::npos)
      return true;
  return false;
}

Blas find_blas() {
  Blas blas;
  blas.library = library_of("sgemm_");
  const std::string file = fs::path(blas.library).filename();
  auto contains = [&](std::string_view part) { return blas.library.find(part) != std::string::npos; };
  const bool inside_libtorch = blas.library.empty() || file.starts_with("libtorch");
  if (inside_libtorch) blas.library.clear();
  if (contains("openblas") || (inside_libtorch && is_mapped("openblas"))) {
    blas.kind = Blas::Kind::openblas;
    blas.name = "OpenBLAS";
    blas.made_for = openblas_processor();
  } else if (contains("mkl") || (inside_libtorch && at::hasMKL())) {
    blas.kind = Blas::Kind::mkl;
    blas.name = "MKL";
  } else if (file.starts_with("libblas.so") && !contains("blis") && !contains("atlas")) {
    // Debian's /usr/lib/*/blas/libblas.so.3; the tuned libraries lie in folders named after them
    blas.kind = Blas::Kind::reference;
    blas.name = "reference BLAS";
  } else {
    blas.name = file.empty() ? "unknown" : file;
  }
  return blas;
}

/// Returns the best of up to 8 float32 products of 512x512 in GFLOP/s. Stops after the second product if both are slow.
double time_product_gflops() {
  constexpr int64_t n = 512;
  constexpr int kTries = 8;
  constexpr double kSlowSeconds = 0.05;
  at::NoGradGuard no_grad;
  const at::Tensor a = at::ones({n, n}), b = at::ones({n, n});
  double best = INFINITY;
  for (int i = 0; i < kTries; ++i) {
    const double begin = steady_seconds();
    at::mm(a, b);
    best = std::min(best, steady_seconds() - begin);
    // the first product also starts threads and loads code, so it is never the only one
    if (i > 0 && best > kSlowSeconds) break;
  }
  return 2.0 * double(n) * double(n) * double(n) / best / 1e9;
}

Malloc find_malloc() {
  const std::string library = library_of("malloc"), file = fs::path(library).filename();
  if (file.find("tcmalloc") != std::string::npos) return {false, "tcmalloc"};
  if (file.find("jemalloc") != std::string::npos) return {false, "jemalloc"};
  if (file.find("mimalloc") != std::string::npos) return {false, "mimalloc"};
  if (file.starts_with("libc.so") || file.starts_with("libc-")) return {true, "glibc"};
  return {false, file.empty() ? "unknown" : file};
}

/// "Intel(R) MKL-DNN v2.7.2 (Git Hash ...)" -> "2.7.2"
std::string onednn_version() {
  if (!at::hasMKLDNN()) return "";
  const std::string text = at::get_mkldnn_version();
  const size_t v = text.find(" v");
  if (v == std::string::npos) return text;
  return text.substr(v + 2, text.find_first_of(" (", v + 2) - (v + 2));
}

std::optional<std::string> find_mpi() {
  std::istringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path program = fs::path(folder) / "mpirun"; ::access(program.c_str(), X_OK) == 0)
      return program.string();
  return std::nullopt;
}

}  // namespace

Machine inspect_machine(bool time_product) {
  Machine machine;
  const CgroupLimits limits = cgroup_limits();
  machine.cores_online = std::max(1, int(::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.cores = int(usable_cores().size());
  // with a quota of 1.5 cores, a second worker would wait half of the time
  if (limits.cores) machine.cores = std::clamp(int(std::floor(*limits.cores + 1e-6)), 1, machine.cores);
  machine.numa_nodes = count_numa_nodes();
  machine.packages = count_packages();
  machine.memory_total_bytes = int64_t(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
  machine.memory_bytes = std::min(machine.memory_total_bytes, limits.memory_bytes.value_or(machine.memory_total_bytes));
  machine.cpu = cpu_features();
  machine.libtorch = TORCH_VERSION;
  machine.onednn = onednn_version();
  machine.blas = find_blas();
  if (time_product) machine.blas.gflops = time_product_gflops();
  machine.malloc = find_malloc();
  machine.operation_threads = at::get_num_threads();
  machine.gpus = at::hasCUDA() ? int(at::getNumGPUs()) : 0;
  machine.mpi = find_mpi();
  return machine;
}

std::vector<std::string> slow_warnings(const Machine& m) {
  std::vector<std::string> warnings;
  // the reference implementation is slower than this on any processor; an optimised one is much faster with AVX2
  constexpr double kSlowGflops = 12;
  if (m.blas.kind == Blas::Kind::reference)
    warnings.push_back(
        fmt::format("libtorch uses the reference BLAS ({}): float32 matrix products are about 30 times slower "
                    "than they could be; install libopenblas0-openmp",
                    m.blas.library));
  else if (m.cpu.avx2.usable && !m.blas.made_for.empty() && !uses_avx2(m.blas.made_for))
    warnings.push_back(
        fmt::format("{} chose its code for {}, without AVX2, which this processor has: float32 matrix products are "
                    "several times slower; set OPENBLAS_CORETYPE={} in the environment",
                    m.blas.name, m.blas.made_for, m.cpu.avx512.usable ? "SkylakeX" : "Haswell"));
  else if (m.blas.gflops > 0 && m.blas.gflops < kSlowGflops && m.cpu.avx2.usable)
    warnings.push_back(
        fmt::format("a 512x512 float32 product runs at only {:.1f} GFLOP/s with {}: the machine is busy or the "
                    "library is not made for this processor; stop other work or install libopenblas0-openmp",
                    m.blas.gflops, m.blas.name));
  if (m.cores < m.cores_online)
    warnings.push_back(
        fmt::format("this process may use {} of the machine's {} cores (affinity or control group): more than "
                    "{} workers will wait for each other",
                    m.cores, m.cores_online, m.cores));
  if (m.operation_threads < m.cores)
    warnings.push_back(
        fmt::format("one operation runs on {} of {} cores (libtorch's setting): a single worker leaves the "
                    "others idle; train on {} devices",
                    m.operation_threads, m.cores, m.cores / std::max(1, m.operation_threads)));
  if (m.gpus == 0 && m.cpu.amx_bf16.reported && !m.cpu.amx_bf16.usable)
    warnings.emplace_back(
        "the processor has AMX but the system does not grant it: precision = \"bf16\" is slower than it could be");
  if (const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA"); isa != nullptr)
    warnings.push_back(fmt::format("ONEDNN_MAX_CPU_ISA={} keeps oneDNN from newer instructions; unset it", isa));
  if (m.malloc.returns_memory)
    warnings.push_back(
        fmt::format("malloc is {}'s: it returns a step's memory to the system and requests it again in the next step "
                    "(5 to 25 % of a step); link or preload tcmalloc (libtcmalloc-minimal4)",
                    m.malloc.name));
  if (m.onednn.empty() && m.gpus == 0)
    warnings.push_back(
        fmt::format("libtorch {} was built without oneDNN: convolutions are several times slower; use one "
                    "that has it",
                    m.libtorch));
  return warnings;
}

std::string summary(const Machine& m) {
  std::string text = counted(m.cores, "core");
  if (m.gpus > 0) text += ", " + counted(m.gpus, "GPU");
  if (m.cpu.avx512.usable) text += ", AVX-512";
  else if (m.cpu.avx2.usable) text += ", AVX2";
  if (m.cpu.amx_bf16.usable) text += ", AMX";
  return text + fmt::format(", {}; libtorch {}", format_bytes(m.memory_bytes), m.libtorch);
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace trireme
