#include <ATen/ATen.h>

#include "data/tables/npy.h"
#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trireme::fuzz::expect_success_or_user_error([&] {
    const trireme::NpyHeader header = trireme::parse_npy_header({data, size}, "input");
    const at::Tensor tensor = trireme::parse_npy({data, size}, "input");
    if (tensor.sizes() != at::IntArrayRef(header.shape) || !tensor.is_contiguous()) std::abort();
    if (tensor.nbytes() + header.data_begin != size) std::abort();
  });
  return 0;
}
