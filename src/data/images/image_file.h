// JPEG and PNG files as bytes of pixels. Decoded by libjpeg(-turbo) and libpng.
//
// Strict where a loss would go unnoticed: a file that ends early, a wrong checksum or code that fits no table is an
// error, although the libraries would fill the rest of the image with grey and warn. Bytes after the end of an image
// are no error.
#pragma once

#include <filesystem>

#include "data/images/image.h"

namespace trireme {

/// Whether a file is looked at as an image: its name ends in .jpg, .jpeg or .png, in small or large letters.
bool is_image_name(const std::filesystem::path& file);

/// All functions below take the bytes of a file; `file` is what messages call it. Safe from many threads.
/// User errors: neither JPEG nor PNG (the content decides, not the name); damaged or cut off (with the position in the
/// file).

/// From the header alone.
ImageSize image_size(Bytes bytes, const std::filesystem::path& file);

/// The pixels with 1 (grey) or 3 (RGB) channels. Grey becomes RGB by repetition; colour becomes grey by ITU-R BT.601's
/// luma; alpha is dropped; 16 bits become 8, rounded; palettes and CMYK become RGB. `reduce` 2, 4 or 8 lets a JPEG be
/// decoded at that part of its size (rounded up), which is quicker; a PNG comes whole.
Image decode_image(Bytes bytes, const std::filesystem::path& file, int64_t channels, int reduce = 1);

/// The numbers that a PNG stores: palette indices, or grey values of up to 8 bits not scaled. For masks, whose numbers
/// are classes. User errors beyond the above: JPEG, several channels, 16 bits.
Image decode_mask(Bytes bytes, const std::filesystem::path& file);

/// From the header alone. User errors beyond image_size's: those of decode_mask that it tells.
ImageSize mask_size(Bytes bytes, const std::filesystem::path& file);

}  // namespace trireme
