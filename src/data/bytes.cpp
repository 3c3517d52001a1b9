#include "data/bytes.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kMaxDecompressed = size_t{1} << 32;  // no data set that Trireme reads is larger
constexpr int kGzipWindow = 15 + 16;                  // zlib: largest window, gzip header and checksum

[[noreturn]] void fail_gzip(const std::filesystem::path& file, size_t position, size_t size, const std::string& why,
                            const std::string& next) {
  fail_user({.where = file.string(),
             .what = fmt::format("corrupt gzip data at byte {} of {}", position, size),
             .why = why,
             .next = next});
}

}  // namespace

std::vector<uint8_t> read_file(const std::filesystem::path& file, const std::string& next, size_t most) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    fail_user({.where = file.string(), .what = "cannot be read", .why = "it is a folder, not a file", .next = next});
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) {
    bool missing = errno == ENOENT;
    fail_user({.where = file.string(),
               .what = missing ? "no such file" : "cannot be opened",
               .why = missing ? "" : std::strerror(errno),
               .next = next});
  }
  std::vector<uint8_t> bytes(std::min(static_cast<size_t>(in.tellg()), most));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) fail_user({.where = file.string(), .what = "cannot be read", .why = std::strerror(errno), .next = next});
  return bytes;
}

bool is_gzip(const std::vector<uint8_t>& bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

std::vector<uint8_t> gunzip(const std::vector<uint8_t>& compressed, const std::filesystem::path& file,
                            const std::string& next) {
  z_stream stream{};
  check_internal(inflateInit2(&stream, kGzipWindow) == Z_OK, "zlib starts");
  std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);
  std::vector<uint8_t> out;
  size_t used = 0, filled = 0;  // total_in and total_out restart with each member
  while (used < compressed.size()) {
    out.resize(filled + kChunk);
    stream.next_in = const_cast<Bytef*>(compressed.data() + used);
    stream.avail_in = static_cast<uInt>(std::min<size_t>(compressed.size() - used, kChunk));
    stream.next_out = out.data() + filled;
    stream.avail_out = kChunk;
    int status = inflate(&stream, Z_NO_FLUSH);
    used = static_cast<size_t>(stream.next_in - compressed.data());
    filled = static_cast<size_t>(stream.next_out - out.data());
    if (status == Z_STREAM_END) {
      out.resize(filled);
      if (used == compressed.size()) return out;
      inflateReset(&stream);
      continue;
    }
    if (status != Z_OK && status != Z_BUF_ERROR)
      fail_gzip(file, used, compressed.size(), stream.msg ? stream.msg : zError(status), next);
    if (filled > kMaxDecompressed) fail_gzip(file, used, compressed.size(), "it decompresses to more than 4 GiB", next);
  }
  // all input is consumed, but some output may still wait inside zlib
  for (;;) {
    out.resize(filled + kChunk);
    stream.next_out = out.data() + filled;
    stream.avail_out = kChunk;
    stream.avail_in = 0;
    int status = inflate(&stream, Z_NO_FLUSH);
    filled = static_cast<size_t>(stream.next_out - out.data());
    if (status == Z_STREAM_END) break;
    if (status != Z_OK) fail_gzip(file, used, compressed.size(), "the file ends before the gzip stream does", next);
  }
  out.resize(filled);
  return out;
}

}  // namespace trireme
