#include "fuzz_input.h"
#include "model/weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trireme::fuzz::InputFile file;
  trireme::fuzz::expect_success_or_user_error([&] { trireme::read_safetensors(file.write(data, size)); });
  return 0;
}
