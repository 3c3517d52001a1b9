#include <csetjmp>
#include <cstddef>
#include <cstdio>  // jpeglib.h uses FILE and size_t without declaring them

#include <jerror.h>
#include <jpeglib.h>

#include "data/images/codecs.h"

namespace trireme {
namespace {

/// libjpeg's error handler, with the place for longjmp.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

/// Treats warnings of libjpeg as errors if pixels are lost, which libjpeg would fill with grey.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC: leave(info);
    default: return;
  }
}

/// Decodes one image. libjpeg reports errors by longjmp. It is called through `guarded` only, from functions without
/// objects to destroy.
class JpegDecoder {
 public:
  JpegDecoder(Bytes bytes, const std::filesystem::path& file) : bytes_(bytes), file_(file) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = leave;
    errors_.base.emit_message = on_message;
    try {
      guarded([this] {
        jpeg_create_decompress(&info_);
        jpeg_mem_src(&info_, bytes_.data(), static_cast<unsigned long>(bytes_.size()));
        jpeg_read_header(&info_, TRUE);
      });
      check_image_size(file_, "JPEG", bytes_, size());
    } catch (...) {
      jpeg_destroy_decompress(&info_);
      throw;
    }
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize size() const { return {info_.image_height, info_.image_width}; }

  Image decode(int64_t channels, int reduce) {
    const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = cmyk ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(reduce);
    guarded([this] { jpeg_start_decompress(&info_); });
    Image image{.size = {info_.output_height, info_.output_width}, .channels = info_.output_components, .pixels = {}};
    image.pixels.resize(static_cast<size_t>(image.size.area() * image.channels));
    read_rows(image);
    if (cmyk) {
      to_rgb(image);
      if (channels == 1) to_grey(image);
    }
    return image;
  }

 private:
  template <class Step>
  void guarded(Step step) {
    if (setjmp(errors_.back) != 0) fail_image(file_, "JPEG", bytes_, position(), errors_.message);
    step();
  }

  /// Returns the position at which libjpeg reads; for a marker that is cut off, the marker's start. -1: it does not
  /// read yet.
  int64_t position() const {
    if (info_.src == nullptr) return -1;
    const bool at_end = errors_.base.msg_code == JWRN_JPEG_EOF;
    return static_cast<int64_t>(at_end ? bytes_.size() : bytes_.size() - info_.src->bytes_in_buffer);
  }

  void read_rows(Image& image) {
    const auto row_bytes = static_cast<size_t>(image.size.width * image.channels);
    uint8_t* pixels = image.pixels.data();
    guarded([this, row_bytes, pixels] {
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = pixels + row_bytes * info_.output_scanline;
        jpeg_read_scanlines(&info_, &row, 1);
      }
      jpeg_finish_decompress(&info_);
    });
  }

  /// Converts CMYK as Adobe's programs store it: 255 is no ink.
  static void to_rgb(Image& image) {
    const auto pixels = static_cast<size_t>(image.size.area());
    for (size_t p = 0; p < pixels; ++p) {
      const uint8_t* cmyk = image.pixels.data() + 4 * p;
      const int black = cmyk[3];
      for (size_t c = 0; c < 3; ++c) {
        const int ink = ((255 - cmyk[c]) * black + 127) / 255;
        image.pixels[3 * p + c] = static_cast<uint8_t>(black - ink);  // written behind the bytes still to be read
      }
    }
    image.channels = 3;
    image.pixels.resize(3 * pixels);
  }

  Bytes bytes_;
  const std::filesystem::path& file_;
  JpegErrors errors_{};
  jpeg_decompress_struct info_{};
};

}  // namespace

ImageSize jpeg_size(Bytes bytes, const std::filesystem::path& file) { return JpegDecoder(bytes, file).size(); }

Image decode_jpeg(Bytes bytes, const std::filesystem::path& file, int64_t channels, int reduce) {
  return JpegDecoder(bytes, file).decode(channels, reduce);
}

}  // namespace trireme
