#include "model/weights/zip_checksums.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace trireme {
namespace {

// signatures of records, and offsets of fields in them
constexpr std::string_view kEntry = "PK\x01\x02", kEnd = "PK\x05\x06", kEnd64 = "PK\x06\x06", kLocator64 = "PK\x06\x07";
constexpr size_t kEntrySize = 46, kEntryChecksum = 16, kEntryNameLength = 28, kEntryExtraLength = 30,
                 kEntryCommentLength = 32;
constexpr size_t kEndSize = 22, kEndDirectorySize = 12, kEndDirectoryOffset = 16;
constexpr size_t kEnd64Size = 56, kEnd64DirectorySize = 40, kEnd64DirectoryOffset = 48;
constexpr size_t kLocator64Size = 20, kLocator64Offset = 8;
constexpr size_t kLongestComment = 0xffff;  // bytes after the end record

uint64_t number_at(std::string_view bytes, size_t offset, int count) {
  uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[offset + size_t(i)]);
  return value;
}

/// nullopt if the file does not have these bytes.
std::optional<std::string> bytes_at(const InputFile& file, uint64_t offset, uint64_t count) {
  if (offset > file.size() || count > file.size() - offset) return std::nullopt;
  std::string bytes(count, '\0');
  file.read(offset, bytes.data(), count);
  return bytes;
}

std::string read_directory(const InputFile& file) {
  const uint64_t tail_size = std::min<uint64_t>(file.size(), kLocator64Size + kEndSize + kLongestComment);
  const std::string tail = bytes_at(file, file.size() - tail_size, tail_size).value();
  const size_t end = tail.rfind(kEnd);
  if (end == std::string::npos || tail.size() - end < kEndSize) return "";
  uint64_t size = number_at(tail, end + kEndDirectorySize, 4), offset = number_at(tail, end + kEndDirectoryOffset, 4);
  if (end >= kLocator64Size && tail.compare(end - kLocator64Size, kLocator64.size(), kLocator64) == 0) {
    const auto end64 = bytes_at(file, number_at(tail, end - kLocator64Size + kLocator64Offset, 8), kEnd64Size);
    if (!end64 || !end64->starts_with(kEnd64)) return "";
    size = number_at(*end64, kEnd64DirectorySize, 8);
    offset = number_at(*end64, kEnd64DirectoryOffset, 8);
  }
  return bytes_at(file, offset, size).value_or("");
}

}  // namespace

std::map<std::string, uint32_t> zip_checksums(const std::filesystem::path& path) {
  const std::string directory = read_directory(InputFile(path));
  std::map<std::string, uint32_t> checksums;
  for (std::string_view rest = directory; rest.size() >= kEntrySize && rest.starts_with(kEntry);) {
    const uint64_t name = number_at(rest, kEntryNameLength, 2);
    const uint64_t whole =
        kEntrySize + name + number_at(rest, kEntryExtraLength, 2) + number_at(rest, kEntryCommentLength, 2);
    if (whole > rest.size()) break;
    checksums.emplace(rest.substr(kEntrySize, name), uint32_t(number_at(rest, kEntryChecksum, 4)));
    rest.remove_prefix(whole);
  }
  return checksums;
}

}  // namespace trireme
