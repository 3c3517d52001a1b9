// Runs a function per rank over a chosen backend. Ranks are threads of this process. Those of mpi must be processes,
// and those of nccl may be: mpirun, or nccl_ranks.sh, starts the whole test program several times, and each process is
// one rank.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/devices/gpu.h"
#include "comm/direct/direct_communicator.h"
#include "comm/gloo/gloo.h"
#include "comm/mpi/mpi.h"
#include "comm/nccl/nccl.h"
#include "comm/rendezvous/process_place.h"
#include "comm/thread_links.h"
#include "comm/through_gpu.h"
#include "comm/virtual/virtual_time.h"
#include "support/device_under_test.h"
#include "support/ranks.h"

namespace trireme::test_support {

/// gloo_gpu: over gloo, with tensors on the device under test. direct: from device to device, beside gloo.
enum class Backend { local, gloo, gloo_gpu, direct, mpi, nccl, virtual_time };

inline std::string name_of(Backend backend) {
  constexpr const char* kNames[] = {"local", "gloo", "gloo_gpu", "direct", "mpi", "nccl", "virtual"};
  return kNames[static_cast<int>(backend)];
}

/// Fixture of tests that choose the number of ranks themselves.
class OnBackend : public ::testing::TestWithParam<Backend> {
 protected:
  const Backend backend = GetParam();
};

// Runs the tests of a fixture over every backend. Their names begin with the backend's: "Gloo/".
#define TRIREME_ON_BACKEND(Prefix, Suite, backend)                                                      \
  INSTANTIATE_TEST_SUITE_P(Prefix, Suite, ::testing::Values(::trireme::test_support::Backend::backend), \
                           [](const auto& info) { return ::trireme::test_support::name_of(info.param); })
#define TRIREME_ON_EVERY_BACKEND(Suite)             \
  TRIREME_ON_BACKEND(Local, Suite, local);          \
  TRIREME_ON_BACKEND(Gloo, Suite, gloo);            \
  TRIREME_ON_BACKEND(GlooGpu, Suite, gloo_gpu);     \
  TRIREME_ON_BACKEND(Direct, Suite, direct);        \
  TRIREME_ON_BACKEND(Virtual, Suite, virtual_time); \
  TRIREME_ON_BACKEND(Nccl, Suite, nccl);            \
  TRIREME_ON_BACKEND(Mpi, Suite, mpi)

/// This process's place among the processes that mpirun started; nullopt without mpirun.
inline std::optional<ProcessPlace> place_in_mpi() {
  return std::getenv("OMPI_COMM_WORLD_RANK") ? process_place(environment(), {.needs_address = false}) : std::nullopt;
}

/// This process's place among those that tests/comm/nccl_ranks.sh started; nullopt without it. `store`: a path for the
/// rendezvous' files, the same for all.
struct NcclPlace {
  int rank = 0, size = 1;
  std::string store;
};
inline std::optional<NcclPlace> place_in_nccl() {
  const char* const store = std::getenv("TRIREME_TEST_STORE");
  if (!store) return std::nullopt;
  return NcclPlace{std::stoi(std::getenv("RANK")), std::stoi(std::getenv("WORLD_SIZE")), store};
}

/// Returns why a backend cannot run this number of ranks here; empty if it can.
inline std::string obstacle_to(Backend backend, int ranks) {
  const bool on_device = backend == Backend::gloo_gpu || backend == Backend::direct;
  if ((backend == Backend::gloo || on_device) && !gloo_available()) return "this build has no gloo";
  if (on_device && device_under_test() == "cpu") return "TRIREME_TEST_DEVICE names no device";
  if (backend == Backend::nccl && !nccl_available()) return "this build has no NCCL";
  if (backend == Backend::nccl && place_in_nccl())
    return place_in_nccl()->size < ranks ? "there are fewer processes" : "";
  if (backend == Backend::nccl && int(visible_gpus().size()) < ranks) return "there are fewer GPUs";
  if (backend != Backend::mpi) return "";
  if (!mpi_available()) return "this build has no MPI";
  const std::optional<ProcessPlace> place = place_in_mpi();
  if (!place) return "started without mpirun";
  return place->size < ranks ? "mpirun started fewer processes" : "";
}

/// The store file for the rendezvous of one gloo world; the destructor removes it.
class RendezvousFile {
 public:
  RendezvousFile() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("trireme_rendezvous_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::remove(path_);
  }
  ~RendezvousFile() { std::filesystem::remove(path_); }
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Like run_ranks(n, body): a rank that throws aborts the world, and the first exception is thrown again. `connect`
/// makes a rank's communicator. No body begins before all ranks are connected, because a rank that ends early would
/// break the other ranks' connecting.
template <class Body>
void run_gloo_ranks(int n, Body body, double timeout_seconds = 30,
                    std::unique_ptr<Communicator> (*connect)(const WorldOptions&) = &gloo_communicator) {
  const RendezvousFile rendezvous;
  std::mutex mutex;
  std::exception_ptr first;
  std::barrier<> connected(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> communicator;
      try {
        communicator =
            connect({.rank = rank, .size = n, .store_file = rendezvous.path(), .timeout_seconds = timeout_seconds});
        connected.arrive_and_wait();
        body(*communicator);
      } catch (const std::exception& error) {
        {
          std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        if (communicator) communicator->abort(error.what());
        else connected.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

/// Rank r on GPU r. Ranks that are processes share the GPUs in turn; NCCL is told to allow it.
inline std::unique_ptr<Communicator> connect_over_nccl(const WorldOptions& options) {
  const at::Device gpu(at::kCUDA, at::DeviceIndex(size_t(options.rank) % visible_gpus().size()));
  return std::make_unique<ThroughGpu>(
      direct_communicator(gloo_communicator(options), nccl_links(gpu), options.timeout_seconds), gpu);
}

/// All ranks on one device.
inline std::unique_ptr<Communicator> connect_over_gloo_from_gpu(const WorldOptions& options) {
  return std::make_unique<ThroughGpu>(gloo_communicator(options), place_of(0));
}

/// The same, with links between the ranks' tensors.
inline std::unique_ptr<Communicator> connect_directly(const WorldOptions& options) {
  return std::make_unique<ThroughGpu>(
      direct_communicator(gloo_communicator(options), std::make_shared<ThreadLinks>(place_of(0)),
                          options.timeout_seconds),
      place_of(0));
}

/// Backend `virtual`, whose transfers take no time.
template <class Body>
void run_ranks_in_virtual_time(int n, Body body) {
  LocalWorld world(n, std::make_shared<VirtualTime>(n, nullptr));
  run_ranks(world, body);
}

/// Runs this process's rank. Each call makes a world of all processes. A process without a rank waits for the others at
/// the next call. A body may begin before all ranks are connected.
template <class Body>
void run_mpi_ranks(int n, Body body) {
  const ProcessPlace place = place_in_mpi().value();
  const auto world =
      mpi_communicator({.rank = place.rank, .size = place.size, .rendezvous_seconds = 600, .timeout_seconds = 120});
  if (place.rank >= n) return;
  try {
    if (n == place.size) return body(*world);
    std::vector<int> ranks(static_cast<size_t>(n));
    std::iota(ranks.begin(), ranks.end(), 0);
    body(*world->group(ranks));
  } catch (const std::exception& error) {
    world->abort(error.what());
    throw;
  }
}

/// As run_mpi_ranks.
template <class Body>
void run_nccl_ranks(int n, Body body) {
  static int worlds = 0;
  const NcclPlace place = place_in_nccl().value();
  const auto world = connect_over_nccl({.rank = place.rank,
                                        .size = place.size,
                                        .store_file = place.store + std::to_string(worlds++),
                                        .timeout_seconds = 120});
  if (place.rank >= n) return;
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  try {
    body(*world->group(ranks));
  } catch (const std::exception& error) {
    world->abort(error.what());
    throw;
  }
}

/// Skips the test if the backend cannot run here. Code after this call runs even if the test is skipped.
template <class Body>
void run_ranks(Backend backend, int n, Body body) {
  if (const std::string obstacle = obstacle_to(backend, n); !obstacle.empty()) GTEST_SKIP() << obstacle;
  if (backend == Backend::local) return run_ranks(n, body);
  if (backend == Backend::virtual_time) return run_ranks_in_virtual_time(n, body);
  if (backend == Backend::mpi) return run_mpi_ranks(n, body);
  if (backend == Backend::nccl && place_in_nccl()) return run_nccl_ranks(n, body);
  run_gloo_ranks(n, body, 30,
                 backend == Backend::nccl       ? &connect_over_nccl
                 : backend == Backend::gloo_gpu ? &connect_over_gloo_from_gpu
                 : backend == Backend::direct   ? &connect_directly
                                                : &gloo_communicator);
}

}  // namespace trireme::test_support
