// oracle_step FOLDER MODEL SHAPE CLASSES BATCH [OPTION=VALUE...], for the oracle_*.py: forward and backward of a named
// model in double. SHAPE is that of a sample, "3,32,32". FOLDER holds <parameter or buffer>.bin, data.bin (double, or
// int64 for language models) and target.bin (int64), all contiguous. The program writes losses.bin,
// <parameter>.gradient and <buffer>.after, and losses_evaluation.bin, the losses of an evaluation with the state before
// the step. Besides the model's options: target=SHAPE of a sample's target, vocabulary=N, task=NAME.
// oracle_step --list MODEL SHAPE CLASSES [OPTION=VALUE...] prints name and shape of every parameter and buffer, and the
// moments of the parameters' initial values.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "../support/raw_tensor.h"
#include "../support/spec_arguments.h"
#include "run_model.h"
#include "zoo/zoo.h"

namespace trireme::test_support {
namespace {

/// Mean and standard deviation of the distribution.
std::pair<double, double> moments(const Init& init) {
  switch (init.kind) {
    case Init::Kind::constant: return {init.a, 0};
    case Init::Kind::uniform: return {(init.a + init.b) / 2, (init.b - init.a) / std::sqrt(12.0)};
    case Init::Kind::normal: return {init.a, init.b};
  }
  return {};
}

void list(int count, char** args) {
  const Model model = make_model(parse_spec(args + 2, args + 5, args + count));
  for (const ParameterSpec& p : model.parameters()) {
    const auto [mean, deviation] = moments(p.init);
    std::cout << "parameter " << p.name << " " << to_string(p.shape) << " " << mean << " " << deviation << "\n";
  }
  for (const BufferSpec& b : model.buffers())
    std::cout << "buffer " << b.name << " " << to_string(b.shape) << " " << b.initial << " 0\n";
}

void step(int count, char** args) {
  const std::string folder = std::string(args[1]) + "/";
  const ModelSpec spec = parse_spec(args + 2, args + 6, args + count);
  const Model model = make_model(spec);
  std::map<std::string, at::Tensor> state;
  for (const ParameterSpec& p : model.parameters())
    state[p.name] = channels_last(test_support::read_raw(folder + p.name + ".bin", p.shape, at::kDouble));
  for (const BufferSpec& b : model.buffers())
    state[b.name] = test_support::read_raw(folder + b.name + ".bin", b.shape, at::kDouble);
  Shape data_shape{std::atoi(args[5])}, target_shape = data_shape;
  data_shape.insert(data_shape.end(), spec.sample_shape.begin(), spec.sample_shape.end());
  target_shape.insert(target_shape.end(), spec.target_shape.begin(), spec.target_shape.end());
  const at::Tensor data =
      test_support::read_raw(folder + "data.bin", data_shape, reads_tokens(spec.name) ? at::kLong : at::kDouble);
  const at::Tensor target = test_support::read_raw(folder + "target.bin", target_shape, at::kLong);
  PlainRun run(model, state);
  test_support::write_raw(folder + "losses_evaluation.bin", run.forward(data, target, /*training=*/false));
  test_support::write_raw(folder + "losses.bin", run.forward(data, target));
  for (auto& [name, gradient] : run.backward()) test_support::write_raw(folder + name + ".gradient", gradient);
  for (const BufferSpec& b : model.buffers()) test_support::write_raw(folder + b.name + ".after", state[b.name]);
}

}  // namespace
}  // namespace trireme::test_support

int main(int count, char** args) {
  const bool lists = count >= 5 && std::string(args[1]) == "--list";
  if (count < 6 && !lists) {
    std::cerr << "usage: oracle_step FOLDER MODEL SHAPE CLASSES BATCH [OPTION=VALUE...], or --list MODEL SHAPE CLASSES "
                 "[OPTION=VALUE...]\n";
    return 2;
  }
  try {
    if (lists) trireme::test_support::list(count, args);
    else trireme::test_support::step(count, args);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
