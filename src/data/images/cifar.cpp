#include "data/images/cifar.h"

#include <fmt/format.h>

#include <utility>

#include "data/bytes.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kBatchFiles = 5;

bool has_coarse(const CifarFormat& format) { return format.coarse_classes > 0; }

[[noreturn]] void fail_file(const std::filesystem::path& file, const CifarFormat& format, std::string what,
                            std::string why) {
  fail_user({.where = file.string(),
             .what = std::move(what),
             .why = std::move(why),
             .next = fmt::format("delete the file and get the set again: trireme data get {}", format.name)});
}

std::string how_to_get(const CifarFormat& format) {
  return fmt::format("trireme data get {} downloads the set", format.name);
}

void read_file_into(const std::filesystem::path& file, const CifarFormat& format, Images& images) {
  parse_cifar(read_file(file, how_to_get(format)), file, format, images);
}

}  // namespace

void parse_cifar(std::span<const uint8_t> bytes, const std::filesystem::path& file, const CifarFormat& format,
                 Images& images) {
  const auto record = static_cast<size_t>(format.record_bytes());
  if (bytes.empty()) fail_file(file, format, "an empty file", "");
  if (bytes.size() % record != 0)
    fail_file(
        file, format, fmt::format("{} bytes", bytes.size()),
        fmt::format("a {} file is a whole number of records of {} bytes; {} left over", format.title, record,
                    bytes.size() % record == 1 ? "1 byte is" : fmt::format("{} bytes are", bytes.size() % record)));
  images.channels = 3;
  images.height = images.width = kCifarSide;
  const size_t records = bytes.size() / record, area = static_cast<size_t>(kCifarSide * kCifarSide);
  const size_t first = images.labels.size();
  images.labels.resize(first + records);
  images.pixels.resize((first + records) * 3 * area);
  for (size_t r = 0; r < records; ++r) {
    const uint8_t* from = bytes.data() + r * record;
    auto take_label = [&](const char* what, int64_t classes) {
      const uint8_t label = *from++;
      if (label >= classes)
        fail_file(file, format, fmt::format("{} {} of record {} (byte {})", what, label, r, from - 1 - bytes.data()),
                  fmt::format("{}s are 0 to {}", what, classes - 1));
      return label;
    };
    if (has_coarse(format)) take_label("coarse label", format.coarse_classes);
    images.labels[first + r] = take_label("label", format.classes);
    uint8_t* to = images.pixels.data() + (first + r) * 3 * area;
    for (size_t p = 0; p < area; ++p)
      for (size_t c = 0; c < 3; ++c) to[3 * p + c] = from[c * area + p];
  }
}

Images read_cifar_train(const std::filesystem::path& folder, const CifarFormat& format) {
  Images images;
  if (has_coarse(format)) {
    read_file_into(folder / "train.bin", format, images);
    return images;
  }
  for (int batch = 1; batch <= kBatchFiles; ++batch) {
    auto file = folder / fmt::format("data_batch_{}.bin", batch);
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) read_file_into(file, format, images);
  }
  if (images.labels.empty())
    fail_user({.where = folder.string(),
               .what = "no training images",
               .why = "none of data_batch_1.bin to data_batch_5.bin is there",
               .next = how_to_get(format)});
  return images;
}

Images read_cifar_test(const std::filesystem::path& folder, const CifarFormat& format) {
  Images images;
  read_file_into(folder / (has_coarse(format) ? "test.bin" : "test_batch.bin"), format, images);
  return images;
}

}  // namespace trireme
