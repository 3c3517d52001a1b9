#include "data/images/coco/coco.h"
#include "data/images/coco/coco_masks.h"
#include "fuzz_input.h"

/// The input is the text of an instances file. Small masks are painted too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kLargestMask = 1 << 16;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool skip_broken : {false, true})
    trireme::fuzz::expect_success_or_user_error([&] {
      const trireme::CocoMasks masks(trireme::parse_coco(text, "input", skip_broken), "");
      for (int64_t i = 0; i < masks.size(); ++i) {
        const trireme::CocoImage& image = masks.instances().images[size_t(i)];
        if (image.size.area() <= kLargestMask && image.problem.empty()) masks.checked_mask(i);
      }
    });
  return 0;
}
