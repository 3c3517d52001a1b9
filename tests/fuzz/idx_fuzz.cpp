#include "data/images/idx.h"
#include "fuzz_input.h"

/// The first byte chooses labels or images, the other bytes are the file, gzipped or plain.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int dims = data[0] % 2 == 0 ? 1 : 3;
  trireme::fuzz::expect_success_or_user_error([&] {
    const trireme::IdxArray array = trireme::parse_idx({data + 1, data + size}, "input", dims, "mnist");
    int64_t values = 1;
    for (int64_t length : array.lengths) values *= length;
    if (values != int64_t(array.values.size())) std::abort();
  });
  return 0;
}
