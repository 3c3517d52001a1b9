// Whole PyTorch archives: libtorch's zip reader and what we make of it. It looks at no checksums, so mutations get through.
#include "model/weights/state_dict.h"

#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trireme::fuzz::InputFile file;
  trireme::fuzz::expect_success_or_user_error([&] { trireme::read_state_dict(file.write(data, size)); });
  return 0;
}
