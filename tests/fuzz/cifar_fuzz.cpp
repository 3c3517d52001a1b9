#include "data/images/cifar.h"
#include "fuzz_input.h"

/// The first byte chooses the set, the other bytes are the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const trireme::CifarFormat one_label{"cifar10", "CIFAR-10", 10, 0},
      two_labels{"cifar100", "CIFAR-100", 100, 20};
  const trireme::CifarFormat& format = data[0] % 2 == 0 ? one_label : two_labels;
  trireme::fuzz::expect_success_or_user_error([&] {
    trireme::Images images;
    trireme::parse_cifar({data + 1, size - 1}, "input", format, images);
    if (images.count() * images.image_bytes() != int64_t(images.pixels.size())) std::abort();
    for (uint8_t label : images.labels)
      if (label >= format.classes) std::abort();
  });
  return 0;
}
