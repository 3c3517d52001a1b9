#include "data/images/image_file.h"
#include "fuzz_input.h"

/// The input is a JPEG or PNG file, decoded in every way. Large sizes are left out, as they only take time.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kLargestImage = 1 << 16;
  const trireme::Bytes bytes(data, size);
  bool small = false;
  trireme::fuzz::expect_success_or_user_error(
      [&] { small = trireme::image_size(bytes, "input").area() <= kLargestImage; });
  if (!small) return 0;
  for (const int64_t channels : {1, 3})
    for (const int reduce : {1, 8})
      trireme::fuzz::expect_success_or_user_error([&] {
        const trireme::Image image = trireme::decode_image(bytes, "input", channels, reduce);
        if (image.channels != channels || image.size.area() * channels != int64_t(image.pixels.size())) std::abort();
      });
  trireme::fuzz::expect_success_or_user_error([&] { trireme::decode_mask(bytes, "input"); });
  return 0;
}
