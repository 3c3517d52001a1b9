// Growth of the time of an exact plan in PipeDream's cost model with layers and devices.
//
// planner_growth [--layers 16,32,...] [--devices 2,4,...] [--straight] [--seed 1] [--svg FILE]: chains with random
// times, activations and weights like those of a convolutional network, at 1 GB/s. Prints a row per number of layers
// and a column per number of devices: processor seconds of the best of three searches, which use one core. Below each
// column is the exponent of the growth with layers, at the end of each row that of the growth with devices (slopes of
// straight lines through the logarithms). --svg draws both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/json_file.h"
#include "chart.h"
#include "planner/graph_files/pipedream.h"

namespace {

using namespace trireme;

constexpr double kBandwidth = 1e9;
constexpr int kRounds = 3;

/// Times of about a millisecond; from the first layer to the last activations shrink and weights grow, as in VGG and
/// ResNet.
LayerGraph chain(int layers, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](double least, double most) {
    return least + (most - least) * double(random() % 10'000) / 10'000;
  };
  LayerGraph graph;
  std::vector<std::pair<int, int>> edges;
  for (int v = 0; v < layers; ++v) {
    const double depth = double(v) / layers;
    LayerProfile layer;
    layer.name = fmt::format("layer{}", v);
    layer.description = "Layer";
    layer.forward = draw(0.2e-3, 2e-3);
    layer.backward = draw(1.5, 2.5) * layer.forward;
    layer.activation_bytes = draw(0.5, 1.5) * 1e6 * std::pow(0.02, depth);
    layer.parameter_bytes = draw(0, 2) * 1e5 * std::pow(50, depth);
    graph.layers.push_back(std::move(layer));
    if (v > 0) edges.push_back({v - 1, v});
  }
  graph.edges = make_dag(layers, edges);
  return graph;
}

double best_seconds(const LayerGraph& graph, const PipeDreamCosts& costs) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    plan_pipedream(graph, costs);
    const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    best = round == 0 ? seconds : std::min(best, seconds);
  }
  constexpr double kTick = 1e-6;  // resolution of the clock
  return std::max(best, kTick);
}

/// The slope of log(seconds) over log(size).
double exponent(const std::vector<int>& sizes, const std::vector<double>& seconds) {
  double x_mean = 0, y_mean = 0, xy = 0, xx = 0;
  const double count = double(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    x_mean += std::log(sizes[i]) / count;
    y_mean += std::log(seconds[i]) / count;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double x = std::log(sizes[i]) - x_mean;
    xy += x * (std::log(seconds[i]) - y_mean);
    xx += x * x;
  }
  return xx > 0 ? xy / xx : 0;
}

std::string chart(const std::vector<int>& layers, const std::vector<int>& devices,
                  const std::vector<std::vector<double>>& by_devices) {
  ChartPanel over_layers{"processor seconds of a plan in PipeDream's model, against layers", "layers of a chain", true};
  ChartPanel over_devices{"the same, against devices", "devices", true};
  for (size_t d = 0; d < devices.size(); ++d) {
    over_layers.lines.push_back({fmt::format("{} devices", devices[d])});
    for (size_t l = 0; l < layers.size(); ++l)
      over_layers.lines.back().points.emplace_back(layers[l], by_devices[d][l]);
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    over_devices.lines.push_back({fmt::format("{} layers", layers[l])});
    for (size_t d = 0; d < devices.size(); ++d)
      over_devices.lines.back().points.emplace_back(devices[d], by_devices[d][l]);
  }
  return svg_chart({over_layers, over_devices});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Processor seconds of an exact plan in PipeDream's cost model, by layers and devices."};
  std::vector<int> layers{16, 32, 64, 128, 256, 512}, devices{2, 4, 8, 16, 32, 64};
  bool straight = false;
  uint64_t seed = 1;
  std::string svg;
  app.add_option("--layers", layers, "lengths of the chains")
      ->delimiter(',')
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--devices", devices, "numbers of devices")
      ->delimiter(',')
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  app.add_flag("--straight", straight, "no replicas");
  app.add_option("--seed", seed, "of the chains")->capture_default_str();
  app.add_option("--svg", svg, "draw a chart into this file");
  CLI11_PARSE(app, argc, argv);

  fmt::print("{:>8}", "layers");
  for (int d : devices) fmt::print(" {:>9}", fmt::format("{} dev", d));
  fmt::print(" {:>9}\n", "exponent");
  std::vector<std::vector<double>> by_devices(devices.size());
  for (int count : layers) {
    const LayerGraph graph = chain(count, seed);
    std::vector<double> row;
    fmt::print("{:>8}", count);
    for (size_t i = 0; i < devices.size(); ++i) {
      row.push_back(best_seconds(graph, {devices[i], kBandwidth, straight, {}}));
      by_devices[i].push_back(row.back());
      fmt::print(" {:>9.5f}", row.back());
      std::fflush(stdout);
    }
    fmt::print(" {:>9.2f}\n", exponent(devices, row));
  }
  fmt::print("{:>8}", "exponent");
  for (const auto& column : by_devices) fmt::print(" {:>9.2f}", exponent(layers, column));
  fmt::print("\n");
  if (!svg.empty()) trireme::write_file_atomically(svg, chart(layers, devices, by_devices));
}
