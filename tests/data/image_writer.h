// Writes JPEG and PNG files for tests with the libraries' writers; the code under test uses only the readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

namespace trireme::test_support {

inline std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

struct PngSpec {
  int width = 0, height = 0;
  int colour = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  std::vector<uint8_t> rows =
      {};  ///< packed as in the file: ceil(width * channels * bits / 8) bytes a row, big-endian samples
  std::vector<uint8_t> palette = {};  ///< r, g, b of each index
  bool transparency = false;          ///< a tRNS chunk: index 0 is transparent
  bool interlaced = false;
};

inline int png_channels(int colour) {
  switch (colour) {
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    default: return 1;
  }
}

inline size_t png_row_bytes(const PngSpec& spec) {
  return (static_cast<size_t>(spec.width) * static_cast<size_t>(png_channels(spec.colour)) *
              static_cast<size_t>(spec.bits) +
          7) /
         8;
}

inline std::string png_bytes(const PngSpec& spec) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), n);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(spec.width), static_cast<png_uint_32>(spec.height), spec.bits,
               spec.colour, spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colours;
  for (size_t i = 0; i + 2 < spec.palette.size(); i += 3)
    colours.push_back({spec.palette[i], spec.palette[i + 1], spec.palette[i + 2]});
  if (!colours.empty()) png_set_PLTE(png, info, colours.data(), static_cast<int>(colours.size()));
  const png_byte transparent = 0;
  if (spec.transparency) png_set_tRNS(png, info, &transparent, 1, nullptr);
  png_write_info(png, info);
  std::vector<png_bytep> rows;
  for (int y = 0; y < spec.height; ++y)
    rows.push_back(const_cast<png_bytep>(spec.rows.data()) + static_cast<size_t>(y) * png_row_bytes(spec));
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

/// An 8-bit grey image or mask.
inline std::string grey_png(int width, int height, const std::vector<uint8_t>& values) {
  return png_bytes({.width = width, .height = height, .colour = PNG_COLOR_TYPE_GRAY, .rows = values});
}

inline std::string rgb_png(int width, int height, const std::vector<uint8_t>& values) {
  return png_bytes({.width = width, .height = height, .rows = values});
}

struct JpegSpec {
  int width = 0, height = 0;
  J_COLOR_SPACE colour = JCS_RGB;  ///< of `pixels`: JCS_GRAYSCALE, JCS_RGB or JCS_CMYK
  std::vector<uint8_t> pixels = {};
  int quality = 95;
  bool progressive = false;
};

inline std::string jpeg_bytes(const JpegSpec& spec) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_width = static_cast<JDIMENSION>(spec.width);
  info.image_height = static_cast<JDIMENSION>(spec.height);
  info.input_components = spec.colour == JCS_GRAYSCALE ? 1 : spec.colour == JCS_RGB ? 3 : 4;
  info.in_color_space = spec.colour;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, spec.quality, TRUE);
  if (spec.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    const size_t row_bytes = size_t{info.image_width} * static_cast<size_t>(info.input_components);
    auto* row = const_cast<JSAMPROW>(spec.pixels.data()) + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&info);
  std::free(buffer);
  return out;
}

/// Slowly changing colours; JPEG changes these little.
inline std::vector<uint8_t> smooth_pixels(int width, int height, int channels) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const int along[4] = {x, y, x + y, height - y};
      for (int c = 0; c < channels; ++c) pixels.push_back(static_cast<uint8_t>(40 + 150 * along[c] / (width + height)));
    }
  return pixels;
}

}  // namespace trireme::test_support
