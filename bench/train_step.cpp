// Images per second of training steps under a plan, on random images in memory: the counterpart of peers/ddp.py.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "plan/named.h"
#include "program/compile.h"
#include "runtime/crew.h"
#include "runtime/worker.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

struct Options {
  std::string model = "cifar-resnet18", precision = "fp32", plan = "data";
  int devices = 2, steps = 6, warmup = 2;
  int64_t batch = 128, classes = 10;
  bool events = false;
};

double images_per_second(const Options& o) {
  const Precision precision = parse_precision(o.precision, "--precision");
  const Model model = make_model({o.model, {3, 32, 32}, o.classes, {}});
  const Plan plan = named_plan(o.plan, model, Cluster::uniform(o.plan == "single" ? 1 : o.devices), o.batch, {});
  const Program program = compile(model, plan, {.segment_per_layer = o.events, .mixed_precision = precision == Precision::bf16});
  const at::Tensor images = at::rand({o.batch, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor targets = at::randint(o.classes, {o.batch}, at::kLong);
  auto load = [&](Range range) {
    return std::vector<at::Tensor>{images.narrow(0, range.begin, range.size()), targets.narrow(0, range.begin, range.size())};
  };
  OptimizerConfig optimizer{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 5e-4};
  LocalWorld world(plan.devices);
  ParameterStore store(program, precision);
  std::vector<double> begin(static_cast<size_t>(plan.devices)), end(begin);
  run_crew(world, [&](int rank) {
    Worker worker(rank, model, &program, nullptr, store, world, {.optimizer = optimizer});
    std::map<std::string, double> seconds;
    for (int step = 0; step < o.warmup + o.steps; ++step) {
      StepOutcome outcome =
          worker.train({.step = step, .batch = {o.batch, load}, .learning_rate = 0.1, .trace = o.events && step >= o.warmup});
      if (step == o.warmup) begin[size_t(rank)] = outcome.begin;
      end[size_t(rank)] = outcome.end;
      for (const Event& event : outcome.events) seconds[event.name] += (event.end - event.begin) / o.steps;
    }
    if (rank != 0) return;
    std::vector<std::pair<double, std::string>> sorted;
    for (const auto& [name, value] : seconds) sorted.emplace_back(value, name);
    std::sort(sorted.rbegin(), sorted.rend());
    for (const auto& [value, name] : sorted) std::cout << fmt::format("{:8.3f} ms  {}\n", value * 1e3, name);
  });
  const double elapsed = *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
  return double(o.batch * o.steps) / elapsed;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::Options o;
  CLI::App app{"Images per second of training steps on random images"};
  app.add_option("--model", o.model);
  app.add_option("--precision", o.precision);
  app.add_option("--plan", o.plan);
  app.add_option("--devices", o.devices);
  app.add_option("--batch", o.batch);
  app.add_option("--classes", o.classes);
  app.add_option("--steps", o.steps);
  app.add_option("--warmup", o.warmup);
  app.add_flag("--events", o.events, "print seconds per layer and direction");
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << fmt::format("{:.1f}\n", trireme::images_per_second(o));
  } catch (const std::exception& error) {
    std::cerr << trireme::first_line(error) << "\n";
    return 1;
  }
}
