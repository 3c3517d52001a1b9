// How much of a change of the cores' speed different operators see: the exponent of base/devices/at_core_speed.h. Each
// operator runs between two measurements of the core, again and again, while other users of the machine change its
// speed. On a machine of one's own nothing changes, and the result says so.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/devices/core_speed.h"
#include "base/infinity.h"
#include "base/seconds.h"

namespace trireme {
namespace {

constexpr size_t kTogether = 8;        // runs of an operator whose means make one point
constexpr double kLeastSpread = 0.03;  // of the cores' speed, below which there is nothing to learn
constexpr double kLeastCorrelation = 0.3;

struct Point {
  double core = 0, seconds = 0;  ///< logarithms
};

struct Operator {
  std::string name;
  std::function<void()> run;
  std::vector<Point> points = {};
  double core = 0, seconds = 0;  ///< sums of the next point
  size_t runs = 0;
};

std::vector<Operator> operators() {
  const at::Tensor images = at::randn({4, 64, 32, 32}), filters = at::randn({64, 64, 3, 3});
  const at::Tensor large = at::randn({1024, 1024}), rows = at::randn({256, 1024}), small = at::randn({128, 128});
  const at::Tensor many = at::randn({1 << 22}), copy = at::empty_like(many);
  const at::Tensor words = at::randn({20, 32, 256}), state = at::zeros({1, 32, 256});
  const std::vector<at::Tensor> weights = {at::randn({1024, 256}), at::randn({1024, 256}), at::randn({1024}),
                                           at::randn({1024})};
  return {{"convolution, 3 x 3, 64 channels", [=] { at::conv2d(images, filters, {}, 1, 1); }},
          {"LSTM, 256 units, 20 words",
           [=] {
             at::lstm(words, {state, state}, weights, true, 1, 0, false, false, false);
           }},
          {"product, 128 x 128",
           [=] {
             for (int i = 0; i < 8; ++i) at::mm(small, small);
           }},
          {"product, 256 x 1024 x 1024", [=] { at::mm(rows, large); }},
          {"copy, 16 MiB", [=] { copy.copy_(many); }}};
}

/// Seconds of the piece of work, now.
double core_seconds(CoreSpeed& speed) {
  speed.measure(steady_seconds());
  return speed.take().mean().value_or(0);
}

void run_once(Operator& o, CoreSpeed& speed) {
  const double before = core_seconds(speed), begin = steady_seconds();
  o.run();
  const double seconds = steady_seconds() - begin, after = core_seconds(speed);
  if (before == 0 || after == 0) return;  // another thread had the core
  o.core += before + after;
  o.seconds += seconds;
  if (++o.runs < kTogether) return;
  o.points.push_back({std::log(o.core), std::log(o.seconds)});
  o.core = o.seconds = 0;
  o.runs = 0;
}

double mean(const std::vector<Point>& points, double (*of)(const Point&)) {
  double sum = 0;
  for (const Point& point : points) sum += of(point);
  return sum / double(points.size());
}

void print(const Operator& o) {
  const double core = mean(o.points, [](const Point&p) { return p.core; }),
               seconds = mean(o.points, [](const Point&p) { return p.seconds; });
  double cc = 0, ss = 0, cs = 0;
  for (const Point& p : o.points) {
    cc += (p.core - core) * (p.core - core);
    ss += (p.seconds - seconds) * (p.seconds - seconds);
    cs += (p.core - core) * (p.seconds - seconds);
  }
  const double spread = std::sqrt(cc / double(o.points.size()));
  if (!(spread > kLeastSpread)) {
    std::cout << fmt::format("{:32} the cores were equally fast\n", o.name);
    return;
  }
  if (!(cs / std::sqrt(cc * ss) > kLeastCorrelation)) {
    std::cout << fmt::format("{:32} does not depend on the speed of the cores, which varies by {:.0f} %\n", o.name,
                             100 * spread);
    return;
  }
  // Both are measured with errors: the exponent lies between the slopes of the two regressions.
  std::cout << fmt::format("{:32} exponent {:.2f} to {:.2f}, correlation {:.2f}, {} points, speeds vary by {:.0f} %\n",
                           o.name, cs / cc, ss / cs, cs / std::sqrt(cc * ss), o.points.size(), 100 * spread);
}

/// Prints the fastest times of the piece of work in many threads: they must not depend on a thread's addresses.
void compare_threads() {
  constexpr int kThreads = 64, kRuns = 200;
  std::vector<double> fastest;
  fastest.reserve(kThreads);
  std::mutex one_at_a_time;
  std::latch all_have_measured(kThreads);  // a thread that ended would give its addresses to the next one
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        {
          const std::lock_guard lock(one_at_a_time);
          CoreSpeed speed(0);
          double least = kInfinity;
          for (int r = 0; r < kRuns; ++r)
            if (const double seconds = core_seconds(speed); seconds > 0) least = std::min(least, seconds);
          fastest.push_back(least);
        }
        all_have_measured.arrive_and_wait();
      });
  }
  const auto [least, most] = std::minmax_element(fastest.begin(), fastest.end());
  std::cout << fmt::format("the piece of work in {} threads: fastest times of {:.1f} to {:.1f} us\n", kThreads,
                           *least * 1e6, *most * 1e6);
}

int run(int count, char** arguments) {
  double seconds = 60;
  CLI::App app{"How much of a change of the cores' speed different operators see"};
  app.add_option("--seconds", seconds, "to measure for")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, count, arguments);
  at::set_num_threads(1);
  c10::InferenceMode inference;
  std::vector<Operator> all = operators();
  compare_threads();
  CoreSpeed speed(0);
  for (const Operator& o : all) o.run();  // warm-up
  for (const double begin = steady_seconds(); steady_seconds() - begin < seconds || all.front().points.empty();)
    for (Operator& o : all) run_once(o, speed);
  for (const Operator& o : all) print(o);
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) { return trireme::run(count, arguments); }
