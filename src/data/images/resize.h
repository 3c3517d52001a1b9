// Resizes images.
#pragma once

#include <optional>

#include "data/images/image.h"

namespace trireme {

/// Writes the rectangle `window` of `image` resized to `full`, as [window height, window width, channels] bytes, to
/// `to`. The rest of the resized image is not computed. `image` has 1 or 3 channels and at least one pixel; `window`
/// lies inside `full`. With `part`, which lies inside `image`, that part is resized to `full`; pixels beside it count
/// where a triangle reaches them (Pillow's `box`).
///
/// Bilinear with antialiasing: an output pixel is the mean of the input under a triangle as wide as two pixels of the
/// coarser of the two grids (Heckbert, "Filter", 1989: separable filters scaled by the reduction). Columns first, then
/// rows, rounded to bytes in between, with 22-bit weights. Pillow's resize(BILINEAR), and with it torchvision's Resize,
/// give the same bytes.
void resize_bilinear(const ImageView& image, ImageSize full, const Rectangle& window, uint8_t* to,
                     const std::optional<ExactRectangle>& part = std::nullopt);

/// For row or column `at` of an axis resized from `from` to `to` pixels: returns the input pixel that contains its
/// centre.
inline int64_t nearest_source(int64_t at, int64_t from, int64_t to) { return (2 * at + 1) * from / (2 * to); }

}  // namespace trireme
