// TensorBoard event files: protobuf events (tensorboard_event.proto) framed as TFRecords.
// Frame: length (8 bytes, little endian), masked CRC-32C of the length, data, masked CRC-32C of the data
// (tensorflow/core/lib/io/record_writer.h). CRC-32C: Castagnoli polynomial, reflected, 0x82F63B78.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "report/files.h"

namespace trireme {

uint32_t crc32c(std::string_view bytes);

/// TFRecord's mask. It prevents a CRC that is stored among its own data from looking like a CRC of them.
uint32_t masked_crc32c(std::string_view bytes);

std::string tfrecord(std::string_view data);

struct Scalar {
  std::string_view tag;  ///< "train/loss"
  double value = 0;
};

/// Writes one event file, `<folder>/events.out.tfevents.<seconds since 1970>.<host>.<process>`. Each call is on disk
/// when it returns. Not thread-safe.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& folder);

  void scalars(int64_t step, std::span<const Scalar> values);

 private:
  AppendFile file_;
};

}  // namespace trireme
