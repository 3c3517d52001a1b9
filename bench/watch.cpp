// The cost of detecting failures: recording what a rank does (comm/flight_recorder.h), signs of life during collectives
// over gloo, and the search for infinities in a gradient before its reduction.
//
// bench_watch [rounds]: lines "name value unit", each the median of the rounds; the last lines are shares of the whole.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/median.h"
#include "comm/flight_recorder.h"
#include "comm/gloo/gloo.h"

namespace {

using trireme::median;
using Clock = std::chrono::steady_clock;

constexpr int64_t kParameters = 11'200'000;  // ResNet-18
constexpr int64_t kSmall = 1'000;            // elements
constexpr int kCalls = 2'000;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

/// Seconds to record an instruction and an operation, text included.
double record_seconds() {
  trireme::FlightRecorder recorder;
  const std::string instruction = "reduce_gradients bucket 7";
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 100 * kCalls; ++i) {
    recorder.begin_instruction(instruction);
    recorder.end_operation(
        recorder.begin_operation(fmt::format("all_reduce(sum) of Float [1000], call {} of ranks 0,1", i)));
  }
  return seconds_since(start) / (100 * kCalls);
}

/// Seconds of an all_reduce between two ranks. `watched`: the rendezvous is at a port, where the ranks also show signs
/// of life; otherwise it is in a file, without these.
double all_reduce_seconds(bool watched, int64_t elements, int calls) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("trireme_bench_{}", ::getpid());
  std::filesystem::remove(file);
  trireme::WorldOptions options{.size = 2};
  if (watched) options.port = free_port();
  else options.store_file = file.string();
  double seconds = 0;
  const auto rank = [&](int number) {
    at::set_num_threads(1);
    trireme::WorldOptions own = options;
    own.rank = number;
    const auto world = trireme::gloo_communicator(own);
    at::Tensor tensor = at::zeros({elements});
    for (int i = 0; i < calls / 10 + 1; ++i) world->all_reduce(tensor);
    world->barrier();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) world->all_reduce(tensor);
    if (number == 0) seconds = seconds_since(start) / calls;
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  std::filesystem::remove(file);
  return seconds;
}

double check_seconds(const at::Tensor& gradient) {
  const Clock::time_point start = Clock::now();
  if (!std::isfinite(gradient.sum().item<double>())) throw std::runtime_error("zeros are finite");
  return seconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  at::set_num_threads(1);
  const at::Tensor gradient = at::zeros({kParameters});
  std::vector<double> record, watched, unwatched, ratio, check, large;
  for (int round = 0; round < rounds; ++round) {
    record.push_back(record_seconds());
    unwatched.push_back(all_reduce_seconds(false, kSmall, kCalls));
    watched.push_back(all_reduce_seconds(true, kSmall, kCalls));
    ratio.push_back(watched.back() / unwatched.back());
    check.push_back(check_seconds(gradient));
    large.push_back(all_reduce_seconds(true, kParameters, 10));
  }
  fmt::print("record {:.0f} ns\n", 1e9 * median(record));
  fmt::print("all_reduce_4kB_without_signs {:.1f} us\n", 1e6 * median(unwatched));
  fmt::print("all_reduce_4kB_with_signs {:.1f} us\n", 1e6 * median(watched));
  fmt::print("gradient_check_45MB {:.2f} ms\n", 1e3 * median(check));
  fmt::print("all_reduce_45MB {:.1f} ms\n", 1e3 * median(large));
  fmt::print("record_of_all_reduce_4kB {:.4f} ratio\n", median(record) / median(watched));
  fmt::print("with_signs_to_without {:.4f} ratio\n", median(ratio));
  fmt::print("gradient_check_of_all_reduce_45MB {:.4f} ratio\n", median(check) / median(large));
}
