// weights_copy FOLDER, for weights_oracle.py: reads every file of FOLDER/in in any format and writes its tensors as
// safetensors under the same name to FOLDER/out. If reading fails, the error goes to FOLDER/out/<name>.error.
#include <fstream>
#include <iostream>

#include "model/weights/read_weights.h"
#include "model/weights/safetensors.h"
#include "trireme/error.h"

int main(int count, char** args) {
  namespace fs = std::filesystem;
  using namespace trireme;
  if (count != 2) {
    std::cerr << "usage: weights_copy FOLDER\n";
    return 2;
  }
  const fs::path in = fs::path(args[1]) / "in", out = fs::path(args[1]) / "out";
  for (const fs::directory_entry& file : fs::directory_iterator(in)) {
    const std::string name = file.path().filename().string();
    try {
      const Weights weights = read_weights(file.path());
      write_safetensors(out / name, weights.tensors, weights.metadata);
    } catch (const Error& error) {
      std::ofstream(out / (name + ".error")) << (error.blame() == Blame::user ? "user: " : "run: ") << error.what();
    }
  }
  return 0;
}
