// oracle_step FOLDER MODEL WIDTH CHANNELS SIZE CLASSES BATCH: forward and backward of a named model in double, for
// oracle_resnet.py. FOLDER holds <parameter or buffer>.bin, data.bin (double) and target.bin (int64), all contiguous; the
// step adds losses.bin, <parameter>.gradient and <buffer>.after.
#include <cstdlib>
#include <iostream>

#include "../support/raw_tensor.h"
#include "run_model.h"
#include "zoo/zoo.h"

namespace trireme::testing {
namespace {

void step(char** args) {
  const std::string folder = std::string(args[1]) + "/";
  const int64_t channels = std::atoi(args[4]), size = std::atoi(args[5]), classes = std::atoi(args[6]), batch = std::atoi(args[7]);
  Model model = make_model({.name = args[2], .sample_shape = {channels, size, size}, .classes = classes,
                            .options = {{"width", std::atof(args[3])}}});
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
  PlainRun run(model, state);
  testing::write_raw(folder + "losses.bin", run.forward(testing::read_raw(folder + "data.bin", {batch, channels, size, size}, at::kDouble),
                                           testing::read_raw(folder + "target.bin", {batch}, at::kLong)));
  for (auto& [name, gradient] : run.backward()) testing::write_raw(folder + name + ".gradient", gradient);
  for (const std::string& name : buffers) testing::write_raw(folder + name + ".after", state[name]);
}

}  // namespace
}  // namespace trireme::testing

int main(int count, char** args) {
  if (count != 8) {
    std::cerr << "usage: oracle_step FOLDER MODEL WIDTH CHANNELS SIZE CLASSES BATCH\n";
    return 2;
  }
  try {
    trireme::testing::step(args);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
