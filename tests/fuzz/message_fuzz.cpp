#include <ATen/ATen.h>

#include <string_view>

#include "fuzz_input.h"
#include "update/remote/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  trireme::fuzz::expect_success_or_error(trireme::Blame::run, [&] {
    const trireme::Message message = trireme::decode({reinterpret_cast<const char*>(data), size});
    size_t bytes = message.text.size() + message.numbers.size() * sizeof(double);
    for (const at::Tensor& tensor : message.tensors) bytes += tensor.nbytes();
    if (bytes > size) std::abort();
    const std::string again = trireme::encode(message);
    if (again.size() != size || trireme::encode(trireme::decode(again)) != again) std::abort();
  });
  return 0;
}
