// Reads JPEG and PNG files as bytes of pixels. Decoded by libjpeg(-turbo) and libpng.
//
// Decoding is strict if a loss could remain unnoticed. A file that ends early, a wrong checksum, or a code that is in
// no table is an error, although the libraries would fill the rest of the image with grey and warn. Bytes after the end
// of an image are no error.
#pragma once

#include <filesystem>
#include <string>

#include "data/images/image.h"

namespace trireme {

/// True if the file's name is that of an image: it ends in .jpg, .jpeg or .png, in small or large letters.
bool is_image_name(const std::filesystem::path& file);

/// Returns the ending of a file's name in small letters, with its dot: ".gif".
std::string small_ending_of(const std::filesystem::path& file);

/// True if the file's name has an ending of other images: .gif, .bmp, .webp, ...
bool is_other_image_name(const std::filesystem::path& file);

/// All functions below take the bytes of a file. `file`: its name in messages. Thread-safe. User errors: neither JPEG
/// nor PNG (by the content, not the name); damaged or cut off (with the position in the file).

/// Reads the header only.
ImageSize image_size(Bytes bytes, const std::filesystem::path& file);

/// Returns the pixels with 1 (grey) or 3 (RGB) channels. Grey becomes RGB by repetition; colour becomes grey by ITU-R
/// BT.601's luma; alpha is dropped; 16 bits become 8, rounded; palettes and CMYK become RGB. With `reduce` 2, 4 or 8, a
/// JPEG may be decoded at that fraction of its size (rounded up), which is faster; a PNG is always decoded at full
/// size.
Image decode_image(Bytes bytes, const std::filesystem::path& file, int64_t channels, int reduce = 1);

/// Returns the numbers that a PNG stores: palette indices, or grey values of up to 8 bits, not scaled. For masks, whose
/// numbers are classes. User errors in addition: a JPEG; several channels; 16 bits.
Image decode_mask(Bytes bytes, const std::filesystem::path& file);

/// Reads the header only. User errors in addition to image_size's: those of decode_mask that the header shows.
ImageSize mask_size(Bytes bytes, const std::filesystem::path& file);

}  // namespace trireme
