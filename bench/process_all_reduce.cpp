// All-reduce between processes over a communicator: mpirun -n 2 process_all_reduce gloo|mpi. Rank 0 prints lines
// "trireme-BACKEND bytes seconds_min seconds_median".
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "ranks.h"
#include "trireme/error.h"

namespace {

constexpr int64_t kBytes[] = {4'000, 1'000'000, 25'000'000, 100'000'000};
constexpr int kRepetitions = 30;

}  // namespace

int main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "gloo";
  try {
    const auto world = trireme::ranks_of_bench(backend);
    if (!world)
      trireme::fail_user(
          {"process_all_reduce", "there is one process", "an all-reduce takes several", "start it with mpirun -n 2"});
    at::set_num_threads(1);
    for (const int64_t bytes : kBytes) {
      at::Tensor tensor = at::zeros({bytes / 4});
      std::vector<double> seconds;
      for (int i = 0; i <= kRepetitions; ++i) {
        world->barrier();
        const auto start = std::chrono::steady_clock::now();
        world->all_reduce(tensor);
        if (i > 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      std::sort(seconds.begin(), seconds.end());
      if (world->rank() == 0)
        fmt::print("trireme-{} {} {:.9f} {:.9f}\n", backend, bytes, seconds.front(), seconds[seconds.size() / 2]);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "process_all_reduce: {}\n", error.what());
    return 1;
  }
}
