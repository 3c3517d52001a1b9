// The number of positions that an experiment's first epoch computes, by data.pad_to_multiple_of, and the number of
// different batch shapes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "experiment/batches.h"
#include "experiment/read_experiment.h"
#include "trireme/error.h"

namespace trireme {
namespace {

struct Padded {
  int64_t positions = 0;
  size_t shapes = 0;
};

Padded first_epoch(const Experiment& experiment, const TaskData& data) {
  const Batches batches(experiment, data);
  Padded padded;
  std::set<Shape> shapes;
  for (int64_t step = 0; step < batches.sampler().steps_per_epoch(); ++step) {
    const PlannedBatch batch = batches.training(step);
    const Shape shape = batch.set->sample_shape();
    padded.positions += element_count(shape) * int64_t(batch.indices.size());
    shapes.insert(shape);
  }
  padded.shapes = shapes.size();
  return padded;
}

int run(int count, char** arguments) {
  std::string file;
  std::vector<std::string> set;
  std::vector<int64_t> multiples{0, 1, 4, 8, 16};
  CLI::App app{"Positions of an epoch by data.pad_to_multiple_of; 0: all padding"};
  app.add_option("experiment", file, "experiment file (TOML)")->required();
  app.add_option("--set", set, "override a key of the experiment: --set batch=256");
  app.add_option("--multiples", multiples, "to compare with each other");
  CLI11_PARSE(app, count, arguments);
  Experiment experiment = read_experiment(file, {.set = set});
  const TaskData data = open_data(experiment.data);
  experiment.pad_to_multiple_of = 0;
  const Padded whole = first_epoch(experiment, data);
  std::cout << data.source << "\n| multiple | positions of an epoch | times fewer | shapes |\n|---|---|---|---|\n";
  for (const int64_t multiple : multiples) {
    experiment.pad_to_multiple_of = multiple;
    const Padded padded = first_epoch(experiment, data);
    std::cout << fmt::format("| {} | {} | {:.2f} | {} |\n", multiple, padded.positions,
                             double(whole.positions) / double(padded.positions), padded.shapes);
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  try {
    return trireme::run(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "bench_padding: " << error.what() << "\n";
    return 2;
  }
}
