// The input is the pickle of an archive with one small storage and the code of one class.
#include <caffe2/serialize/inline_container.h>

#include <string>

#include "fuzz_input.h"
#include "model/weights/state_dict.h"

namespace {

std::string archive(const uint8_t* pickle, size_t size) {
  const std::string storage(32, '\x01');
  const std::string code = "class M(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n";
  std::string bytes;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t count) {
    bytes.append(static_cast<const char*>(data), count);
    return count;
  });
  writer.writeRecord("data.pkl", pickle, size);
  writer.writeRecord("data/0", storage.data(), storage.size());
  writer.writeRecord("code/__torch__.py", code.data(), code.size());
  writer.writeEndOfFile();
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static trireme::fuzz::InputFile file;
  const std::string bytes = archive(data, size);
  trireme::fuzz::expect_success_or_user_error([&] {
    const trireme::Weights weights =
        trireme::read_state_dict(file.write(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
    // Every element must lie in the file's memory. Expanded tensors are left out: they have more elements than memory.
    for (const auto& [name, tensor] : weights.tensors)
      if (tensor.numel() <= int64_t(size)) (void)tensor.clone();
  });
  return 0;
}
