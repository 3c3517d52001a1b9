#include "report/tensorboard.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "sample.h"
#include "tensorboard_event.pb.h"

namespace trireme {
namespace {

using ::trireme::test_support::TemporaryFolder;

TEST(Crc32c, GivesTheKnownAnswers) {  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

template <typename Integer>
Integer little_endian(const std::string& bytes, size_t at) {
  Integer value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));  // the tests run on little-endian machines
  return value;
}

/// The CRC by its definition, bit by bit, without the mask; independent of the code with a table.
uint32_t slow_crc(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      bool odd = (crc ^ (byte >> bit)) & 1;
      crc = (crc >> 1) ^ (odd ? 0x82F63B78u : 0u);
    }
  return ~crc;
}

uint32_t unmask(uint32_t masked) {
  uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated << 15) | (rotated >> 17);
}

/// Reads frames like a reader of TFRecords and parses their events.
std::vector<tensorboard::Event> read_events(const std::string& bytes) {
  std::vector<tensorboard::Event> events;
  for (size_t at = 0; at < bytes.size();) {
    auto length = little_endian<uint64_t>(bytes, at);
    EXPECT_EQ(unmask(little_endian<uint32_t>(bytes, at + 8)), slow_crc(bytes.substr(at, 8)));
    std::string data = bytes.substr(at + 12, length);
    EXPECT_EQ(unmask(little_endian<uint32_t>(bytes, at + 12 + length)), slow_crc(data));
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromString(data));
    at += 16 + length;
  }
  return events;
}

TEST(EventWriter, WritesWhatTensorBoardReads) {
  TemporaryFolder folder;
  EventWriter writer(folder.path());
  const std::array<Scalar, 2> scalars = {{{"train/loss", 0.25}, {"train/step_seconds", 0.5}}};
  writer.scalars(7, scalars);
  std::filesystem::path file = std::filesystem::directory_iterator(folder.path())->path();
  EXPECT_TRUE(file.filename().string().starts_with("events.out.tfevents."));
  std::vector<tensorboard::Event> events = read_events(test_support::read_text(file));  // the writer is still open
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_GT(events[0].wall_time(), 1.6e9);
  EXPECT_EQ(events[1].step(), 7);
  ASSERT_EQ(events[1].summary().value_size(), 2);
  EXPECT_EQ(events[1].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(events[1].summary().value(0).simple_value(), 0.25f);
}

}  // namespace
}  // namespace trireme
