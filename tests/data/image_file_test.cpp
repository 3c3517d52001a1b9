#include "data/images/image_file.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "image_writer.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes bytes_of(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

Image decode(const std::string& text, int64_t channels, int reduce = 1) {
  return decode_image(bytes_of(text), "a.img", channels, reduce);
}

/// Sample `s` of a row that is packed as in a PNG file.
int unpacked(const uint8_t* row, int s, int bits) {
  if (bits == 16) return row[2 * s] << 8 | row[2 * s + 1];
  if (bits == 8) return row[s];
  const int per_byte = 8 / bits;
  return row[s / per_byte] >> (8 - bits * (s % per_byte + 1)) & ((1 << bits) - 1);
}

struct Colour {
  int r, g, b;
};

/// Oracle: the colour of a pixel by the PNG specification, rounded to 8 bits, without alpha.
Colour colour_at(const PngSpec& spec, int y, int x) {
  const uint8_t* row = spec.rows.data() + static_cast<size_t>(y) * png_row_bytes(spec);
  const int channels = png_channels(spec.colour), most = (1 << spec.bits) - 1;
  auto sample = [&](int c) { return unpacked(row, x * channels + c, spec.bits); };
  auto byte = [&](int c) { return static_cast<int>(std::lround(sample(c) * 255.0 / most)); };
  if (spec.colour == PNG_COLOR_TYPE_PALETTE) {
    const auto at = static_cast<size_t>(3 * sample(0));
    return {spec.palette[at], spec.palette[at + 1], spec.palette[at + 2]};
  }
  if ((spec.colour & PNG_COLOR_MASK_COLOR) != 0) return {byte(0), byte(1), byte(2)};
  return {byte(0), byte(0), byte(0)};
}

std::vector<PngSpec> every_png() {
  std::vector<PngSpec> specs;
  uint32_t seed = 1;
  for (int colour : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA,
                     PNG_COLOR_TYPE_PALETTE})
    for (int bits : {1, 2, 4, 8, 16})
      for (bool interlaced : {false, true}) {
        const bool small = bits < 8, is_palette = colour == PNG_COLOR_TYPE_PALETTE;
        if ((small && colour != PNG_COLOR_TYPE_GRAY && !is_palette) || (is_palette && bits == 16)) continue;
        PngSpec spec{.width = 13, .height = 9, .colour = colour, .bits = bits, .interlaced = interlaced};
        spec.rows = random_bytes(png_row_bytes(spec) * 9, ++seed);
        if (is_palette) spec.palette = random_bytes(size_t{3} << bits, ++seed);
        spec.transparency = is_palette && interlaced;
        specs.push_back(spec);
      }
  return specs;
}

TEST(DecodePng, GivesTheColoursOfEveryKind) {
  for (const PngSpec& spec : every_png()) {
    const std::string file = png_bytes(spec);
    const Image rgb = decode(file, 3), grey = decode(file, 1);
    ASSERT_EQ(rgb.size, (ImageSize{9, 13}));
    ASSERT_EQ(image_size(bytes_of(file), "a"), rgb.size);
    ASSERT_EQ(rgb.pixels.size(), 9u * 13 * 3);
    ASSERT_EQ(grey.pixels.size(), 9u * 13);
    for (int y = 0; y < 9; ++y)
      for (int x = 0; x < 13; ++x) {
        const Colour c = colour_at(spec, y, x);
        const uint8_t* pixel = rgb.view().row(y) + 3 * x;
        const bool equal = pixel[0] == c.r && pixel[1] == c.g && pixel[2] == c.b;
        ASSERT_TRUE(equal) << "colour type " << spec.colour << ", " << spec.bits << " bits at " << y << ", " << x;
        ASSERT_NEAR(grey.view().row(y)[x], 0.299 * c.r + 0.587 * c.g + 0.114 * c.b, 0.501);
      }
  }
}

TEST(DecodeMask, GivesTheNumbersAsTheyAreStored) {
  for (const PngSpec& spec : every_png()) {
    const std::string file = png_bytes(spec);
    auto decode_it = [&] { return decode_mask(bytes_of(file), "m.png"); };
    const bool one_number = spec.colour == PNG_COLOR_TYPE_GRAY || spec.colour == PNG_COLOR_TYPE_PALETTE;
    if (!one_number || spec.bits == 16) {
      EXPECT_THAT(error_of(decode_it),
                  AllOf(HasSubstr("m.png: a mask of"), HasSubstr(one_number ? "16 bits" : "channels")));
      continue;
    }
    const Image mask = decode_it();
    ASSERT_EQ(mask.pixels.size(), 9u * 13);
    for (int y = 0; y < 9; ++y)
      for (int x = 0; x < 13; ++x)
        ASSERT_EQ(mask.view().row(y)[x],
                  unpacked(spec.rows.data() + static_cast<size_t>(y) * png_row_bytes(spec), x, spec.bits));
  }
  const std::string jpeg = jpeg_bytes({.width = 8, .height = 8, .pixels = smooth_pixels(8, 8, 3)});
  EXPECT_THAT(error_of([&] { decode_mask(bytes_of(jpeg), "m.jpg"); }), HasSubstr("m.jpg: a JPEG as a mask"));
}

TEST(DecodeJpeg, IsNearTheOriginal) {
  for (bool progressive : {false, true})
    for (J_COLOR_SPACE colour : {JCS_RGB, JCS_GRAYSCALE}) {
      const int channels = colour == JCS_RGB ? 3 : 1;
      const auto pixels = smooth_pixels(61, 43, channels);
      const std::string file =
          jpeg_bytes({.width = 61, .height = 43, .colour = colour, .pixels = pixels, .progressive = progressive});
      const Image rgb = decode(file, 3), grey = decode(file, 1);
      ASSERT_EQ(rgb.size, (ImageSize{43, 61}));
      ASSERT_EQ(image_size(bytes_of(file), "a"), rgb.size);
      for (size_t p = 0; p < 61u * 43; ++p) {
        const uint8_t* from = pixels.data() + p * static_cast<size_t>(channels);
        for (size_t c = 0; c < 3; ++c) ASSERT_NEAR(rgb.pixels[3 * p + c], from[channels == 3 ? c : 0], 5);
        const double luma = channels == 3 ? 0.299 * from[0] + 0.587 * from[1] + 0.114 * from[2] : from[0];
        ASSERT_NEAR(grey.pixels[p], luma, 4);
      }
    }
}

TEST(DecodeJpeg, TurnsInkIntoLight) {
  const auto pixels = smooth_pixels(32, 24, 4);
  const std::string file =
      jpeg_bytes({.width = 32, .height = 24, .colour = JCS_CMYK, .pixels = pixels, .quality = 100});
  const Image rgb = decode(file, 3), grey = decode(file, 1);
  ASSERT_EQ(rgb.pixels.size(), 32u * 24 * 3);
  ASSERT_EQ(grey.pixels.size(), 32u * 24);
  for (size_t p = 0; p < 32u * 24; ++p)
    for (size_t c = 0; c < 3; ++c) ASSERT_NEAR(rgb.pixels[3 * p + c], pixels[4 * p + c] * pixels[4 * p + 3] / 255.0, 3);
}

TEST(DecodeJpeg, ReducesToAPartOfItsSize) {
  const auto pixels = smooth_pixels(101, 67, 3);
  const std::string file = jpeg_bytes({.width = 101, .height = 67, .pixels = pixels});
  for (int reduce : {2, 4, 8}) {
    const Image image = decode(file, 3, reduce);
    ASSERT_EQ(image.size, (ImageSize{(67 + reduce - 1) / reduce, (101 + reduce - 1) / reduce}));
    for (int64_t y = 0; y < 67 / reduce; ++y)
      for (int64_t x = 0; x < 101 / reduce; ++x) {
        double sum = 0;
        for (int64_t v = y * reduce; v < (y + 1) * reduce; ++v)
          for (int64_t u = x * reduce; u < (x + 1) * reduce; ++u) sum += pixels[static_cast<size_t>(3 * (v * 101 + u))];
        ASSERT_NEAR(image.view().row(y)[3 * x], sum / (reduce * reduce), 6) << reduce;
      }
  }
  EXPECT_EQ(decode(rgb_png(9, 9, random_bytes(243, 3)), 3, 8).size, (ImageSize{9, 9})) << "a PNG comes whole";
}

TEST(DecodeImage, RefusesEveryTruncation) {
  const std::string files[] = {
      png_bytes({.width = 20, .height = 15, .rows = random_bytes(900, 5)}),
      png_bytes({.width = 20,
                 .height = 15,
                 .colour = PNG_COLOR_TYPE_PALETTE,
                 .bits = 4,
                 .rows = random_bytes(150, 6),
                 .palette = random_bytes(48, 7),
                 .interlaced = true}),
      jpeg_bytes({.width = 20, .height = 15, .pixels = random_bytes(900, 8)}),
      jpeg_bytes({.width = 20, .height = 15, .pixels = random_bytes(900, 9), .progressive = true})};
  for (const std::string& file : files) {
    decode(file, 3);
    for (size_t n = 0; n < file.size(); ++n) {
      const std::string message = error_of([&] { decode(file.substr(0, n), 3); });
      ASSERT_TRUE(message.starts_with("a.img: ")) << message;
      if (n > 40) {
        ASSERT_THAT(message, HasSubstr("at byte " + std::to_string(n) + " of " + std::to_string(n))) << n;
      }
    }
  }
}

TEST(DecodeImage, NeverCrashesOnDamage) {
  const uint32_t seed = 20;
  std::mt19937 random(seed);
  const std::string files[] = {
      png_bytes({.width = 20, .height = 15, .rows = random_bytes(900, 5), .interlaced = true}),
      jpeg_bytes({.width = 20, .height = 15, .pixels = random_bytes(900, 8)}),
      jpeg_bytes({.width = 20, .height = 15, .pixels = random_bytes(900, 9), .progressive = true})};
  int refused = 0;
  for (const std::string& file : files)
    for (int round = 0; round < 300; ++round) {
      std::string damaged = file;
      for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes)
        damaged[random() % damaged.size()] = static_cast<char>(random());
      try {
        const Image image = decode(damaged, 3);
        ASSERT_EQ(static_cast<int64_t>(image.pixels.size()), image.size.area() * 3);
      } catch (const Error& error) {
        ASSERT_EQ(error.blame(), Blame::user) << "seed " << seed;
        ++refused;
      }
    }
  EXPECT_GT(refused, 400) << "a PNG has checksums, a JPEG some redundancy";
}

TEST(DecodeImage, SaysWhatIsDamagedAndWhere) {
  std::string png = rgb_png(20, 15, random_bytes(900, 5));
  const size_t data = png.find("IDAT");
  png[data + 20] ^= 1;
  EXPECT_THAT(error_of([&] { decode(png, 3); }),
              AllOf(HasSubstr("a.img: damaged PNG at byte"), HasSubstr("data.on_error")));
  EXPECT_THAT(error_of([] { decode("", 3); }), HasSubstr("a.img: an empty file"));
  EXPECT_THAT(error_of([] { decode("GIF89a", 3); }), AllOf(HasSubstr("neither JPEG nor PNG"), HasSubstr("0x47")));
  EXPECT_THAT(error_of([] { image_size({}, "b.jpg"); }), HasSubstr("b.jpg"));
}

TEST(DecodeImage, DoesNotBelieveAnImpossibleSize) {
  std::string png = rgb_png(20, 15, random_bytes(900, 5));
  for (size_t at : {16, 20}) {  // width and height in the header chunk
    png[at] = 0;
    png[at + 1] = 0x0f;
  }
  const uint32_t sum = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17));
  png.replace(29, 4, big_endian(sum));
  EXPECT_THAT(error_of([&] { decode(png, 3); }), HasSubstr("its header says 983060x983055 pixels"));
}

TEST(ImageNames, AreKnownByTheirEnding) {
  for (const char* name : {"a.jpg", "b/a.JPEG", "a.b.Png"}) EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"jpg", "a.txt", ".png", "a.png.part"}) EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace
}  // namespace trireme
