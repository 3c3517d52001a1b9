#include "data/images/image_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "data/images/codecs.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::array<uint8_t, 3> kJpegStart{0xff, 0xd8, 0xff};
constexpr std::array<uint8_t, 8> kPngStart{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
const char* const kImageNext = "replace the file, or leave broken files out with data.on_error = \"skip\"";

template <size_t N>
bool starts_with(Bytes bytes, const std::array<uint8_t, N>& start) {
  return bytes.size() >= N && std::equal(start.begin(), start.end(), bytes.begin());
}

[[noreturn]] void fail_format(const std::filesystem::path& file, Bytes bytes) {
  fail_user({.where = file.string(),
             .what = bytes.empty() ? "an empty file" : "neither JPEG nor PNG",
             .why = bytes.empty() ? "" : fmt::format("it starts with the byte 0x{:02x}", bytes[0]),
             .next = kImageNext});
}

void check_mask_format(Bytes bytes, const std::filesystem::path& file) {
  if (starts_with(bytes, kPngStart)) return;
  if (!starts_with(bytes, kJpegStart)) fail_format(file, bytes);
  fail_user({.where = file.string(),
             .what = "a JPEG as a mask",
             .why = "its compression changes the class numbers",
             .next = "store masks as PNG"});
}

}  // namespace

std::string small_ending_of(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

void fail_image(const std::filesystem::path& file, const char* format, Bytes bytes, int64_t position, std::string why) {
  const std::string at = position < 0 ? "" : fmt::format(" at byte {} of {}", position, bytes.size());
  fail_user({.where = file.string(),
             .what = fmt::format("damaged {}{}", format, at),
             .why = std::move(why),
             .next = kImageNext});
}

void check_image_size(const std::filesystem::path& file, const char* format, Bytes bytes, ImageSize size) {
  const bool possible = size.height > 0 && size.width > 0 && size.height <= kMaxImagePixels / size.width;
  if (!possible)
    fail_image(file, format, bytes, -1, fmt::format("its header says {}x{} pixels", size.width, size.height));
}

bool is_image_name(const std::filesystem::path& file) {
  const std::string ending = small_ending_of(file);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_other_image_name(const std::filesystem::path& file) {
  static constexpr std::array<std::string_view, 13> kEndings{".avif", ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jp2",
                                                             ".jxl",  ".pgm", ".ppm", ".tif",  ".tiff", ".webp"};
  return std::find(kEndings.begin(), kEndings.end(), small_ending_of(file)) != kEndings.end();
}

ImageSize image_size(Bytes bytes, const std::filesystem::path& file) {
  if (starts_with(bytes, kJpegStart)) return jpeg_size(bytes, file);
  if (starts_with(bytes, kPngStart)) return png_size(bytes, file, PngKind::image);
  fail_format(file, bytes);
}

Image decode_image(Bytes bytes, const std::filesystem::path& file, int64_t channels, int reduce) {
  check_internal(channels == 1 || channels == 3, "images are decoded to 1 or 3 channels");
  check_internal(reduce == 1 || reduce == 2 || reduce == 4 || reduce == 8, "images are reduced by 1, 2, 4 or 8");
  if (starts_with(bytes, kJpegStart)) return decode_jpeg(bytes, file, channels, reduce);
  if (starts_with(bytes, kPngStart)) return decode_png(bytes, file, PngKind::image, channels);
  fail_format(file, bytes);
}

Image decode_mask(Bytes bytes, const std::filesystem::path& file) {
  check_mask_format(bytes, file);
  return decode_png(bytes, file, PngKind::mask, 1);
}

ImageSize mask_size(Bytes bytes, const std::filesystem::path& file) {
  check_mask_format(bytes, file);
  return png_size(bytes, file, PngKind::mask);
}

}  // namespace trireme
