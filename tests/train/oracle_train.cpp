// oracle_train FOLDER MODEL CLASSES SIZES STEPS_PER_EPOCH SHAPE, for oracle_train.py: trains a named model in double on
// one device. SIZES (of the steps' batches) and SHAPE are lists such as 8,5,3. FOLDER holds data<step>.bin (double),
// target<step>.bin (int64) and optimizer.toml, the [optimizer] table of an experiment whose batch is the first of
// SIZES. The program writes <parameter>.initial, <parameter>.<step>, <parameter>.average.<step> if averages are kept,
// and loss.<step>.
#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>
#include <sstream>

#include "../support/raw_tensor.h"
#include "experiment/read_optimizer.h"
#include "plan/named.h"
#include "train/lockstep.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> list;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) list.push_back(std::stoll(item));
  return list;
}

void train(char** args) {
  const std::string folder = std::string(args[1]) + "/";
  const std::vector<int64_t> sizes = numbers(args[4]), shape = numbers(args[6]);
  const Model model = make_model({args[2], shape, std::atoi(args[3]), {}});
  const Plan plan = named_plan("single", model, Cluster::uniform(1), sizes[0], {});
  auto batch_of = [&](int64_t step) {
    const int64_t n = sizes[size_t(step)];
    Shape full = shape;
    full.insert(full.begin(), n);
    const std::string number = std::to_string(step) + ".bin";
    std::vector<at::Tensor> inputs{test_support::read_raw(folder + "data" + number, full, at::kDouble),
                                   test_support::read_raw(folder + "target" + number, {n}, at::kLong)};
    return Batch{n, [inputs](Range r) {
                   return std::vector<at::Tensor>{inputs[0].narrow(0, r.begin, r.size()),
                                                  inputs[1].narrow(0, r.begin, r.size())};
                 }};
  };
  LockstepOptions options;
  options.precision = Precision::fp64;
  options.worker.seed = 11;
  options.learning_rate = 0;  // one step without an effect, to read the initial values
  options.steps = 1;
  const Snapshot initial = run_lockstep(model, plan, batch_of, options)[0];
  for (size_t p = 0; p < initial.names.size(); ++p)
    test_support::write_raw(folder + initial.names[p] + ".initial", initial.parameters[p]);

  const ConfigTable table = ConfigTable::from_file(folder + "optimizer.toml");
  const OptimizerSettings settings = read_optimizer(table);
  table.finish();
  options.steps = int64_t(sizes.size());
  options.worker.optimizer = settings.optimizer;
  options.learning_rate_of = [&](int64_t step) {
    return scheduled_rate(settings.schedule, settings.optimizer.learning_rate, sizes[0], step, options.steps,
                          std::atoi(args[5]));
  };
  options.clip_norm = settings.clip_norm;
  options.one_pass = true;
  auto snapshots = run_lockstep(model, plan, batch_of, options);
  for (size_t s = 0; s < snapshots.size(); ++s) {
    std::string step = ".";
    step += std::to_string(s);
    test_support::write_raw(folder + "loss" + step, at::full({1}, snapshots[s].loss, at::kDouble));
    for (size_t p = 0; p < snapshots[s].names.size(); ++p) {
      const std::string& name = snapshots[s].names[p];
      test_support::write_raw(folder + name + step, snapshots[s].parameters[p]);
      if (snapshots[s].averages[p].defined())
        test_support::write_raw(folder + name + ".average" + step, snapshots[s].averages[p]);
    }
  }
}

}  // namespace
}  // namespace trireme

int main(int count, char** args) {
  if (count != 7) {
    std::cerr << "usage: oracle_train FOLDER MODEL CLASSES SIZES STEPS_PER_EPOCH SHAPE\n";
    return 2;
  }
  try {
    trireme::train(args);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
