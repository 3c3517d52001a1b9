#include <png.h>

#include <fmt/format.h>

#include <csetjmp>
#include <cstring>

#include "data/images/codecs.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kMessageBytes = 200;

/// Decodes one image. libpng reports errors by longjmp. It is called through `guarded` only, from functions without
/// objects to destroy.
class PngDecoder {
 public:
  PngDecoder(Bytes bytes, const std::filesystem::path& file) : bytes_(bytes), file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    check_internal(info_ != nullptr, "libpng starts");
    png_set_read_fn(png_, this, on_read);
    try {
      guarded([this] { png_read_info(png_, info_); });
      check_image_size(file_, "PNG", bytes_, size());
    } catch (...) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw;
    }
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageSize size() const { return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)}; }

  Image decode_image(int64_t channels) {
    const int colour = png_get_color_type(png_, info_);
    const bool is_grey = (colour & PNG_COLOR_MASK_COLOR) == 0;
    guarded([this, is_grey, channels, colour] {
      png_set_scale_16(png_);
      if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (is_grey) png_set_expand_gray_1_2_4_to_8(png_);
      if (is_grey && channels == 3) png_set_gray_to_rgb(png_);
      png_set_strip_alpha(png_);
    });
    Image image = read(is_grey ? channels : 3);
    if (!is_grey && channels == 1) to_grey(image);
    return image;
  }

  /// Throws a user error if the image does not hold class numbers.
  void check_numbers() const {
    const int colour = png_get_color_type(png_, info_), bits = png_get_bit_depth(png_, info_);
    const bool one_number = colour == PNG_COLOR_TYPE_PALETTE || colour == PNG_COLOR_TYPE_GRAY;
    if (!one_number || bits > 8)
      fail_user({.where = file_.string(),
                 .what = one_number ? fmt::format("a mask of {} bits", bits)
                                    : fmt::format("a mask of {} channels", png_get_channels(png_, info_)),
                 .why = "a mask holds the number of a class in every pixel: palette or grey PNG of at most 8 bits",
                 .next = "convert the masks"});
  }

  Image decode_numbers() {
    check_numbers();
    guarded([this] { png_set_packing(png_); });
    return read(1);
  }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, kMessageBytes - 1);
    std::longjmp(self->back_, 1);
  }

  static void on_read(png_structp png, png_bytep to, size_t count) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self->bytes_.size() - self->position_) {
      self->position_ = self->bytes_.size();
      png_error(png, "the file ends before the image does");
    }
    std::memcpy(to, self->bytes_.data() + self->position_, count);
    self->position_ += count;
  }

  template <class Step>
  void guarded(Step step) {
    if (setjmp(back_) != 0) fail_image(file_, "PNG", bytes_, static_cast<int64_t>(position_), message_);
    step();
  }

  Image read(int64_t channels) {
    int passes = 1;
    guarded([this, &passes] {
      passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    Image image{.size = size(), .channels = channels, .pixels = {}};
    const auto row_bytes = static_cast<size_t>(image.size.width * channels);
    check_internal(png_get_rowbytes(png_, info_) == row_bytes, "a PNG is converted to the channels asked for");
    image.pixels.resize(static_cast<size_t>(image.size.height) * row_bytes);
    uint8_t* pixels = image.pixels.data();
    const int64_t height = image.size.height;
    guarded([this, passes, pixels, row_bytes, height] {
      for (int pass = 0; pass < passes; ++pass)
        for (int64_t y = 0; y < height; ++y) png_read_row(png_, pixels + static_cast<size_t>(y) * row_bytes, nullptr);
      png_read_end(png_, nullptr);
    });
    return image;
  }

  Bytes bytes_;
  const std::filesystem::path& file_;
  size_t position_ = 0;
  std::jmp_buf back_;
  char message_[kMessageBytes] = "";
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

ImageSize png_size(Bytes bytes, const std::filesystem::path& file, PngKind kind) {
  const PngDecoder decoder(bytes, file);
  if (kind == PngKind::mask) decoder.check_numbers();
  return decoder.size();
}

Image decode_png(Bytes bytes, const std::filesystem::path& file, PngKind kind, int64_t channels) {
  PngDecoder decoder(bytes, file);
  return kind == PngKind::mask ? decoder.decode_numbers() : decoder.decode_image(channels);
}

}  // namespace trireme
