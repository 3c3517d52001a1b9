#include "data/cifar10.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/bytes.h"

namespace trireme {
namespace {

constexpr int kBatchFiles = 5;
const char* const kGetItAgain = "delete the file and get the set again: trireme data get cifar10";

}  // namespace

void read_cifar10_file(const std::filesystem::path& file, Images& images) {
  const std::vector<uint8_t> bytes = read_file(file, "trireme data get cifar10 downloads the set");
  const auto record = static_cast<size_t>(kCifarRecord);
  if (bytes.empty() || bytes.size() % record != 0)
    fail_user({.where = file.string(),
               .what = fmt::format("{} bytes", bytes.size()),
               .why = fmt::format("a CIFAR-10 file is a whole number of records of {} bytes, {} bytes are over", record,
                                  bytes.size() % record),
               .next = kGetItAgain});
  images.channels = 3;
  images.height = images.width = kCifarSide;
  const size_t records = bytes.size() / record, area = static_cast<size_t>(kCifarSide * kCifarSide);
  size_t first = images.labels.size();
  images.labels.resize(first + records);
  images.pixels.resize((first + records) * 3 * area);
  for (size_t r = 0; r < records; ++r) {
    const uint8_t* from = bytes.data() + r * record;
    if (from[0] >= kCifarClasses)
      fail_user({.where = file.string(),
                 .what = fmt::format("label {} of record {}", from[0], r),
                 .why = fmt::format("labels are 0 to {}", kCifarClasses - 1),
                 .next = kGetItAgain});
    images.labels[first + r] = from[0];
    uint8_t* to = images.pixels.data() + (first + r) * 3 * area;
    for (size_t p = 0; p < area; ++p)
      for (size_t c = 0; c < 3; ++c) to[3 * p + c] = from[1 + c * area + p];
  }
}

Images read_cifar10_train(const std::filesystem::path& folder) {
  Images images;
  for (int batch = 1; batch <= kBatchFiles; ++batch) {
    auto file = folder / fmt::format("data_batch_{}.bin", batch);
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) read_cifar10_file(file, images);
  }
  if (images.labels.empty())
    fail_user({.where = folder.string(),
               .what = "no training images",
               .why = "none of data_batch_1.bin to data_batch_5.bin is there",
               .next = "trireme data get cifar10 downloads the set"});
  return images;
}

Images read_cifar10_test(const std::filesystem::path& folder) {
  Images images;
  read_cifar10_file(folder / "test_batch.bin", images);
  return images;
}

}  // namespace trireme
