// Growth of the time to compile and simulate one step of a large plan with the number of devices.
//
// simulate_scale --cluster FILE [--devices 128,...] [--layers 96] [--width 12288] [--tensor 8] [--pipeline 16]
// [--micro-batches 64] [--svg FILE]: GPT-2 in bfloat16 under data x tensor x pipeline, 1f1b, micro-batches of one
// sample per data shard, on as many nodes of the cluster's kind as needed, even if the cluster has fewer. Prints a line
// of processor seconds (of one core) per size: the plan, compile (unchecked, as in predictions for large plans),
// representatives and simulate, and the predicted step; --svg draws the seconds and the steps.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/text.h"
#include "chart.h"
#include "cost/cluster_links.h"
#include "cost/datasheet_costs.h"
#include "cost/instruction_costs.h"
#include "plan/cluster_file.h"
#include "plan/named.h"
#include "program/compile.h"
#include "sim/simulate.h"
#include "trireme/error.h"
#include "zoo/zoo.h"

namespace {

using namespace trireme;

constexpr int64_t kPositions = 2048, kWords = 51200;
constexpr int kAdamStates = 2;

struct Options {
  int layers = 96, width = 12288, tensor = 8, pipeline = 16, micro_batches = 64;
  std::vector<int> devices{128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  std::string cluster, svg;
};

struct Measured {
  int devices = 0;
  size_t ranks = 0;
  int64_t instructions = 0;
  double planning = 0, compiling = 0, choosing = 0, simulating = 0;  // processor seconds
  double step = 0;                                                   // predicted seconds
  double whole() const { return compiling + choosing + simulating; }
};

Model make_gpt(const Options& o) {
  constexpr int kWidthPerHead = 128;
  ModelSpec spec;
  spec.name = "gpt2";
  spec.sample_shape = spec.target_shape = {kPositions};
  spec.classes = spec.vocabulary = kWords;
  spec.task = LearningTask::language;
  spec.options = {{"layers", double(o.layers)},
                  {"width", double(o.width)},
                  {"heads", double(std::max(1, o.width / kWidthPerHead))},
                  {"positions", double(kPositions)}};
  return make_model(spec);
}

/// A cluster of `devices` devices in nodes like the file's first.
Cluster grown(const Cluster& from, int devices) {
  Cluster cluster = from;
  const auto per_node =
      int(std::count_if(from.devices.begin(), from.devices.end(), [](const Device& d) { return d.node == 0; }));
  cluster.devices.assign(size_t(devices), from.devices.front());
  for (int d = 0; d < devices; ++d) cluster.devices[size_t(d)].node = d / per_node;
  cluster.nodes.assign(size_t((devices + per_node - 1) / per_node), from.nodes.front());
  return cluster;
}

template <class F>
double seconds_of(F&& work) {
  const std::clock_t start = std::clock();
  work();
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}

Measured measure(const Options& o, const Model& model, const Cluster& described, int devices) {
  Measured m{.devices = devices};
  const Cluster cluster = grown(described, devices);
  const int data = devices / o.tensor / o.pipeline;
  const int64_t batch = int64_t(data) * o.micro_batches;
  Plan plan;
  m.planning = seconds_of([&] {
    plan = uniform_plan(model, cluster,
                        {.data = data, .tensor = o.tensor, .pipeline = o.pipeline, .micro_batches = o.micro_batches},
                        batch, {});
    plan.schedule = "1f1b";
  });
  Program program;
  m.compiling = seconds_of(
      [&] { program = compile(model, plan, {.mixed_precision = true, .private_replicas = true, .checked = false}); });
  std::vector<int> chosen;
  m.choosing = seconds_of([&] { chosen = representatives(program, cluster, batch); });
  m.ranks = chosen.size();
  m.simulating = seconds_of([&] {
    const ClusterLinks links(cluster);
    const DatasheetCosts layers(model, cluster, Precision::bf16, kAdamStates);
    InstructionCosts costs(program, model, cluster, layers, links,
                           {.batch = batch, .precision = Precision::bf16, .representatives = chosen});
    const Simulation simulation = simulate(program, model, costs, links, {.steps = 1, .ranks = chosen});
    m.instructions = simulation.executed;
    m.step = simulation.step_seconds;
  });
  return m;
}

std::string chart(const std::vector<Measured>& all) {
  ChartPanel::Line working{""}, steps{""};
  for (const Measured& m : all) {
    working.points.emplace_back(m.devices, m.whole());
    steps.points.emplace_back(m.devices, m.step);
  }
  return svg_chart({{"processor seconds to compile and simulate one step", "devices", false, {working}},
                    {"predicted seconds of the step", "devices", false, {steps}}});
}

int run(const Options& o) {
  const Cluster described = read_cluster(o.cluster);
  Model model;
  fmt::print("model: {:.2f} s\n", seconds_of([&] { model = make_gpt(o); }));
  fmt::print("{:>8} {:>6} {:>13} {:>8} {:>10} {:>9} {:>11} {:>9} {:>9}\n", "devices", "ranks", "instructions", "plan s",
             "compile s", "choose s", "simulate s", "in all s", "step s");
  std::vector<Measured> all;
  for (int devices : o.devices) {
    if (devices % (o.tensor * o.pipeline) != 0 || devices == 0) {
      fmt::print(stderr, "simulate_scale: {} devices: not a multiple of tensor {} x pipeline {}\n", devices, o.tensor,
                 o.pipeline);
      return 2;
    }
    all.push_back(measure(o, model, described, devices));
    const Measured& m = all.back();
    fmt::print("{:>8} {:>6} {:>13} {:>8.2f} {:>10.2f} {:>9.2f} {:>11.2f} {:>9.2f} {:>9.3f}\n", m.devices, m.ranks,
               m.instructions, m.planning, m.compiling, m.choosing, m.simulating, m.whole(), m.step);
    std::fflush(stdout);
  }
  if (!o.svg.empty()) write_file_atomically(o.svg, chart(all));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Processor seconds to compile and simulate one step of a large plan, by devices."};
  Options o;
  app.add_option("--devices", o.devices, "numbers of devices")->delimiter(',')->capture_default_str();
  app.add_option("--layers", o.layers, "blocks")->check(CLI::Range(1, 10'000))->capture_default_str();
  app.add_option("--width", o.width, "of the model")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--tensor", o.tensor, "degree")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--pipeline", o.pipeline, "degree")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--micro-batches", o.micro_batches, "of a step")->check(CLI::Range(1, 100'000))->capture_default_str();
  app.add_option("--cluster", o.cluster, "file of a cluster, as examples/clusters/selene.cluster.toml")->required();
  app.add_option("--svg", o.svg, "draw a chart into this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulate_scale: {}\n", first_line(error));
    return 2;
  }
}
