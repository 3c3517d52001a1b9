#include "cli/doctor.h"

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/counted.h"
#include "base/devices/gpu.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/bf16_speed.h"
#include "comm/backend_list.h"
#include "report/width.h"

namespace trireme {
namespace {

constexpr int kNameColumns = 16;  // with the indent

/// A long value continues below its beginning.
void line(std::ostream& out, std::string_view name, std::string_view value) {
  const std::vector<std::string> parts = wrap(value, columns_of_output(STDOUT_FILENO) - kNameColumns);
  out << fmt::format("  {:<{}}{}\n", name, kNameColumns - 2, join(parts, "\n" + std::string(kNameColumns, ' ')));
}

std::string cores_text(const Machine& m) {
  std::string text = m.cores == m.cores_online ? fmt::format("{}", m.cores)
                                               : fmt::format("{} of {} usable here", m.cores, m.cores_online);
  return text + ", " + counted(m.packages, "package") + ", " + counted(m.numa_nodes, "NUMA node");
}

std::string memory_text(const Machine& m) {
  if (m.memory_bytes == m.memory_total_bytes) return format_bytes(m.memory_bytes);
  return fmt::format("{} of {} (control group)", format_bytes(m.memory_bytes), format_bytes(m.memory_total_bytes));
}

std::string instructions_text(const CpuFeatures& cpu) {
  struct Named {
    const char* name;
    CpuFeature feature;
  };
  std::string text;
  for (const auto& [name, feature] : {Named{"AVX2", cpu.avx2}, Named{"AVX-512", cpu.avx512},
                                      Named{"AVX-512 bf16", cpu.avx512_bf16}, Named{"AMX bf16", cpu.amx_bf16}}) {
    if (!text.empty()) text += ", ";
    text += feature.usable ? name : fmt::format("{} {}", feature.reported ? "(not granted:" : "no", name);
    if (feature.reported && !feature.usable) text += ")";
  }
  return text;
}

std::string blas_text(const Blas& blas) {
  std::string text = blas.name;
  if (!blas.made_for.empty()) text += " for " + blas.made_for;
  text += fmt::format(", {:.0f} GFLOP/s (512x512 float32)", blas.gflops);
  return blas.library.empty() ? text : text + ", " + blas.library;
}

/// A line per GPU, with those whose memory it cannot read directly.
void list_gpus(std::ostream& out) {
  const std::vector<Gpu> gpus = visible_gpus();
  for (size_t i = 0; i < gpus.size(); ++i) {
    std::string text = fmt::format("{}, {}, {} multiprocessors, compute capability {}", gpus[i].name,
                                   format_bytes(gpus[i].memory_bytes), gpus[i].multiprocessors, gpus[i].capability);
    for (size_t other = 0; other < gpus.size(); ++other)
      if (!has_peer_access(int(i), int(other))) text += fmt::format(", no peer access to GPU {}", other);
    line(out, fmt::format("GPU {}", i), text);
  }
}

}  // namespace

int run_doctor(std::ostream& out, double bf16_speed) {
  const Machine m = inspect_machine();
  out << "This machine\n";
  line(out, "processor", m.cpu.model.empty() ? "unknown" : m.cpu.model);
  line(out, "cores", cores_text(m));
  line(out, "instructions", instructions_text(m.cpu));
  line(out, "bf16", fmt::format("products of matrices {:.2f} times as fast as in float32 (measured once)", bf16_speed));
  line(out, "memory", memory_text(m));
  line(out, "GPUs", m.gpus == 0 ? "none that libtorch can use" : fmt::format("{}; {}", m.gpus, cuda_versions()));
  list_gpus(out);
  out << "Libraries\n";
  line(out, "libtorch", m.libtorch);
  line(out, "BLAS", blas_text(m.blas));
  line(out, "oneDNN", m.onednn.empty() ? "none" : m.onednn);
  line(out, "malloc", m.malloc.name);
  line(out, "threads", fmt::format("{} per operation", m.operation_threads));
  line(out, "MPI", m.mpi.value_or("none (not needed on one machine)"));
  out << "Backends\n";
  for (const BackendKind* backend : backend_kinds())
    line(out, backend->name, backend->purpose + std::string(backend->is_available() ? "" : " (not in this build)"));

  std::vector<std::string> warnings = slow_warnings(m);
  if (std::string warning = bf16_warning(bf16_speed); m.gpus == 0 && !warning.empty())
    warnings.push_back(std::move(warning));
  out << (warnings.empty() ? "Nothing found that would make training slow.\n" : "What will be slow\n");
  for (const std::string& warning : warnings)
    out << "  - " << join(wrap(warning, columns_of_output(STDOUT_FILENO) - 4), "\n    ") << "\n";
  return 0;
}

}  // namespace trireme
