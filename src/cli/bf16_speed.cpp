#include "cli/bf16_speed.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/machine.h"
#include "base/median.h"
#include "base/seconds.h"

namespace trireme {
namespace {

constexpr const char* kFile = "bf16-speed.json";
constexpr int64_t kSize = 256;  // of square matrices: milliseconds also without instructions for bfloat16
constexpr double kSecondsToMeasure = 0.5;
constexpr size_t kFewest = 3;
constexpr double kClearlySlower = 0.9;  // a measured ratio is off by some per cent

double seconds_of_product(const at::Tensor& factor) {
  const double begin = steady_seconds();
  at::mm(factor, factor);
  return steady_seconds() - begin;
}

/// The two precisions alternate, so that other work on the machine slows both.
double measured() {
  const at::NoGradGuard no_grad;
  const at::Tensor single = at::ones({kSize, kSize}), half = single.to(at::kBFloat16);
  for (const at::Tensor& factor : {single, half}) seconds_of_product(factor);  // starts threads and loads code
  std::vector<double> singles, halves;
  const double begin = steady_seconds();
  while (singles.size() < kFewest || steady_seconds() - begin < kSecondsToMeasure) {
    singles.push_back(seconds_of_product(single));
    halves.push_back(seconds_of_product(half));
  }
  return median(singles) / median(halves);
}

}  // namespace

double bf16_speed(const std::filesystem::path& cache) {
  const Machine machine = inspect_machine(/*time_product=*/false);
  const std::string key = fmt::format("{}, AVX-512 {}, AMX {}, {} threads, libtorch {}, oneDNN {}", machine.cpu.model,
                                      machine.cpu.avx512.usable, machine.cpu.amx_bf16.usable, machine.operation_threads,
                                      machine.libtorch, machine.onednn);
  nlohmann::json known = nlohmann::json::object();
  try {
    known = read_json_file(cache / kFile);
    return known.at(key).get<double>();
  } catch (const std::exception&) {
    if (!known.is_object()) known = nlohmann::json::object();
  }
  const double speed = measured();
  known[key] = speed;
  try {
    std::filesystem::create_directories(cache);
    write_json_file(cache / kFile, known);
  } catch (const std::exception&) {  // measured again next time
  }
  return speed;
}

std::string bf16_warning(double speed) {
  if (speed >= kClearlySlower) return "";
  return fmt::format(
      "precision = \"bf16\" is slower than float32 here: products of matrices take {:.2f} times as long; "
      "use \"fp32\"",
      1 / speed);
}

}  // namespace trireme
