// oracle_step FOLDER MODEL SHAPE CLASSES BATCH [OPTION=VALUE...]: forward and backward of a named model in double, for the
// oracle_*.py. SHAPE is a sample's, "3,32,32". FOLDER holds <parameter or buffer>.bin, data.bin (double, or int64 for models of
// language) and target.bin (int64), all contiguous; the step adds losses.bin, <parameter>.gradient and <buffer>.after.
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "../support/raw_tensor.h"
#include "run_model.h"
#include "zoo/zoo.h"

namespace trireme::testing {
namespace {

Shape parse_shape(const std::string& text) {
  Shape shape;
  std::istringstream stream(text);
  for (std::string size; std::getline(stream, size, ',');) shape.push_back(std::atoll(size.c_str()));
  return shape;
}

void step(int count, char** args) {
  const std::string folder = std::string(args[1]) + "/";
  ModelSpec spec{.name = args[2], .sample_shape = parse_shape(args[3]), .classes = std::atoi(args[4]), .options = {}};
  for (int i = 6; i < count; ++i) {
    const std::string option = args[i];
    const size_t equals = option.find('=');
    spec.options[option.substr(0, equals)] = std::atof(option.substr(equals + 1).c_str());
  }
  const Model model = make_model(spec);
  std::map<std::string, at::Tensor> state;
  std::vector<std::string> buffers;
  for (const ParameterSpec& spec : model.parameters())
    state[spec.name] = channels_last(testing::read_raw(folder + spec.name + ".bin", spec.shape, at::kDouble));
  for (const Node& node : model.nodes())
    if (node.layer)
      for (const BufferSpec& spec : node.layer->buffers()) {
        state[spec.name] = testing::read_raw(folder + spec.name + ".bin", spec.shape, at::kDouble);
        buffers.push_back(spec.name);
      }
  const bool tokens = reads_tokens(spec.name);
  Shape data{std::atoi(args[5])}, target = data;
  data.insert(data.end(), spec.sample_shape.begin(), spec.sample_shape.end());
  PlainRun run(model, state);
  testing::write_raw(folder + "losses.bin",
                     run.forward(testing::read_raw(folder + "data.bin", data, tokens ? at::kLong : at::kDouble),
                                 testing::read_raw(folder + "target.bin", tokens ? data : target, at::kLong)));
  for (auto& [name, gradient] : run.backward()) testing::write_raw(folder + name + ".gradient", gradient);
  for (const std::string& name : buffers) testing::write_raw(folder + name + ".after", state[name]);
}

}  // namespace
}  // namespace trireme::testing

int main(int count, char** args) {
  if (count < 6) {
    std::cerr << "usage: oracle_step FOLDER MODEL SHAPE CLASSES BATCH [OPTION=VALUE...]\n";
    return 2;
  }
  try {
    trireme::testing::step(count, args);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
