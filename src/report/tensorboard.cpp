#include "report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "base/machine.h"
#include "base/seconds.h"
#include "tensorboard_event.pb.h"

namespace trireme {
namespace {

constexpr uint32_t kCastagnoli = 0x82F63B78u;
constexpr uint32_t kMaskDelta = 0xA282EAD8u;

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}();

template <typename Integer>
void append_little_endian(std::string& out, Integer value) {
  for (size_t i = 0; i < sizeof(Integer); ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

std::string record_of(const tensorboard::Event& event) { return tfrecord(event.SerializeAsString()); }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  append_little_endian(record, static_cast<uint64_t>(data.size()));
  append_little_endian(record, masked_crc32c(record));
  record += data;
  append_little_endian(record, masked_crc32c(data));
  return record;
}

EventWriter::EventWriter(const std::filesystem::path& folder)
    : file_(folder / fmt::format("events.out.tfevents.{:.0f}.{}.{}", system_seconds(), host_name(), ::getpid())) {
  tensorboard::Event event;
  event.set_wall_time(system_seconds());
  event.set_file_version("brain.Event:2");
  file_.append(record_of(event));
}

void EventWriter::scalars(int64_t step, std::span<const Scalar> values) {
  tensorboard::Event event;
  event.set_wall_time(system_seconds());
  event.set_step(step);
  for (const Scalar& scalar : values) {
    auto* value = event.mutable_summary()->add_value();
    value->set_tag(std::string(scalar.tag));
    value->set_simple_value(static_cast<float>(scalar.value));
  }
  file_.append(record_of(event));
}

}  // namespace trireme
