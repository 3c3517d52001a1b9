#include "data/images/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "data/bytes.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr uint32_t kUnsignedBytes = 0x0800;
constexpr int64_t kMaxValues = int64_t{1} << 40;

uint32_t big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

std::string get_it_again(const std::string& set) {
  return "delete the file and get the set again: trireme data get " + set;
}

[[noreturn]] void fail_file(const std::filesystem::path& file, const std::string& set, std::string what,
                            std::string why) {
  fail_user({.where = file.string(), .what = std::move(what), .why = std::move(why), .next = get_it_again(set)});
}

std::string kind_of(uint32_t dims) {
  if (dims == 1) return "labels";
  if (dims == 3) return "images";
  return fmt::format("an array of {} dims", dims);
}

void check_magic(const std::filesystem::path& file, const std::string& set, const std::vector<uint8_t>& bytes,
                 int dims) {
  if (bytes.size() < 4)
    fail_file(file, set, "truncated idx file",
              fmt::format("expected a magic number of 4 bytes, found {} bytes", bytes.size()));
  const uint32_t magic = big_endian(bytes.data()), expected = kUnsignedBytes | static_cast<uint32_t>(dims);
  if (magic == expected) return;
  const uint32_t found_dims = magic & 0xff;
  std::string hint =
      (magic & ~0xffu) == kUnsignedBytes ? fmt::format(" (this file holds {})", kind_of(found_dims)) : "";
  fail_file(
      file, set, fmt::format("wrong magic number 0x{:08x}", magic),
      fmt::format("an idx file of {} starts with 0x{:08x}{}", kind_of(static_cast<uint32_t>(dims)), expected, hint));
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& file, int dims, const std::string& set) {
  return parse_idx(read_file(file, fmt::format("trireme data get {} downloads the set", set)), file, dims, set);
}

IdxArray parse_idx(std::vector<uint8_t> bytes, const std::filesystem::path& file, int dims, const std::string& set) {
  const bool named_gz = file.extension() == ".gz";
  // browsers unpack .gz files and keep the name, so a plain idx file is accepted under either name
  const bool plain_idx = bytes.size() >= 3 && bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 8;
  if (is_gzip(bytes) || (named_gz && !plain_idx)) bytes = gunzip(bytes, file, get_it_again(set));
  check_magic(file, set, bytes, dims);
  const size_t header = 4 + 4 * static_cast<size_t>(dims);
  if (bytes.size() < header)
    fail_file(file, set, "truncated idx file",
              fmt::format("expected a header of {} bytes, found {} bytes", header, bytes.size()));
  IdxArray array;
  int64_t values = 1;
  for (int d = 0; d < dims; ++d) {
    array.lengths.push_back(big_endian(bytes.data() + 4 + 4 * d));
    if (array.lengths.back() > 0 && values > kMaxValues / array.lengths.back())
      fail_file(file, set, "impossible idx header",
                fmt::format("its lengths [{}, ...] multiply to more than 2^40", array.lengths[0]));
    values *= array.lengths.back();
  }
  const auto expected = header + static_cast<size_t>(values);
  if (bytes.size() != expected)
    fail_file(file, set, bytes.size() < expected ? "truncated idx file" : "idx file with surplus bytes",
              fmt::format("its header [{}] requires {} bytes, found {} bytes", fmt::join(array.lengths, ", "), expected,
                          bytes.size()));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  array.values = std::move(bytes);
  return array;
}

Images read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels, int64_t classes,
                       const std::string& set) {
  IdxArray pixels = read_idx(images, 3, set);
  IdxArray marks = read_idx(labels, 1, set);
  if (pixels.lengths[0] != marks.lengths[0])
    fail_file(labels, set, fmt::format("{} labels", marks.lengths[0]),
              fmt::format("{} holds {} images", images.string(), pixels.lengths[0]));
  if (pixels.values.empty()) fail_file(images, set, "no images", "a data set needs at least one");
  auto bad = std::find_if(marks.values.begin(), marks.values.end(), [&](uint8_t label) { return label >= classes; });
  if (bad != marks.values.end())
    fail_file(labels, set, fmt::format("label {} of sample {}", *bad, bad - marks.values.begin()),
              fmt::format("labels are 0 to {}", classes - 1));
  return {.channels = 1,
          .height = pixels.lengths[1],
          .width = pixels.lengths[2],
          .pixels = std::move(pixels.values),
          .labels = std::move(marks.values)};
}

}  // namespace trireme
