#include "model/weights/torch_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
#include "model/weights/weights.h"
#include "model/weights/zip_checksums.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kZip = "PK\x03\x04";
// The start of PyTorch files from before 1.6: a pickle (protocol 2) of the number 0x1950a86a20f9469cfc6c.
constexpr std::string_view kLegacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

std::string resave(const fs::path& path) {
  return fmt::format("in Python: torch.save(torch.load(\"{}\", map_location=\"cpu\"), \"weights.pt\")",
                     path.filename().string());
}

void check_start(const fs::path& path) {
  const InputFile file(path);
  std::array<char, kLegacy.size()> buffer{};
  const size_t count = std::min<size_t>(buffer.size(), file.size());
  file.read(0, buffer.data(), count);
  const std::string_view start(buffer.data(), count);
  if (start.starts_with(kZip)) return;
  if (start == kLegacy)
    fail_user({.where = path.string(),
               .what = "a file in the format of PyTorch before 1.6",
               .why = "only the zip format of later versions is supported",
               .next = resave(path)});
  if (start.starts_with('\x80'))
    fail_user({.where = path.string(),
               .what = "a plain pickle",
               .why = "PyTorch's files are zip archives",
               .next = "load it in Python and write a dict of tensors with torch.save"});
  if (!zip_checksums(path).empty())
    fail_user({.where = path.string(),
               .what = "damaged at its start",
               .why = "it ends as a zip archive does, but its first bytes are not \"PK\", 3, 4",
               .next = "get it again, or save it again"});
  fail_user({.where = path.string(),
             .what = "not a PyTorch file",
             .why = "these are zip archives, which start with \"PK\"",
             .next = "check the path, or save the state dict with torch.save"});
}

[[noreturn]] void fail_archive(const fs::path& path, const std::string& what, const std::string& why) {
  constexpr size_t kLongestReason = 200;
  fail_user({.where = path.string(),
             .what = what,
             .why = printable(why, kLongestReason),
             .next = "the file is damaged or cut short: get it again"});
}

}  // namespace

TorchArchive::TorchArchive(fs::path path) : path_(std::move(path)) {
  check_start(path_);
  try {
    reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path_.string());
  } catch (const std::exception& error) {
    fail_archive(path_, "not a complete zip archive", first_line(error));
  }
  // records are identified without the folder that contains all of them
  for (const auto& [name, checksum] : zip_checksums(path_))
    checksums_.emplace(name.substr(name.find('/') + 1), checksum);
  if (!has("data.pkl"))
    fail_user({.where = path_.string(),
               .what = "a zip archive without data.pkl",
               .why = "torch.save and torch.jit.save write one",
               .next = "check the path, or save the state dict with torch.save"});
  if (has("byteorder") && text("byteorder") != "little")
    fail_user({.where = path_.string(),
               .what = "saved on a big-endian machine",
               .why = "this machine is little-endian",
               .next = resave(path_) + " on a little-endian machine"});
}

TorchArchive::~TorchArchive() = default;

/// libtorch's reader is built without this check.
void TorchArchive::check_checksum(const std::string& name, const void* data, size_t bytes) const {
  const auto stated = checksums_.find(name);
  if (stated == checksums_.end() || stated->second == 0) return;
  const auto found = uint32_t(crc32_z(0, static_cast<const Bytef*>(data), bytes));
  if (found != stated->second)
    fail_archive(path_, fmt::format("record \"{}\" is damaged", printable(name)),
                 fmt::format("the checksum of its {} bytes is {:08x}, its directory states {:08x}", bytes, found,
                             stated->second));
}

bool TorchArchive::has(const std::string& record) const {
  try {
    return reader_->hasRecord(record);
  } catch (const std::exception& error) {
    fail_archive(path_, fmt::format("record \"{}\"", printable(record)), first_line(error));
  }
}

std::pair<c10::DataPtr, size_t> TorchArchive::record(const std::string& name) {
  if (!has(name)) fail_archive(path_, fmt::format("no record \"{}\"", printable(name)), "its pickle refers to it");
  std::pair<c10::DataPtr, size_t> record;
  try {
    std::tie(record.first, record.second) = reader_->getRecord(name);
  } catch (const std::exception& error) {
    fail_archive(path_, fmt::format("record \"{}\" cannot be read", printable(name)), first_line(error));
  }
  check_checksum(name, record.first.get(), record.second);
  return record;
}

std::string TorchArchive::text(const std::string& name) {
  const auto [data, bytes] = record(name);
  return bytes == 0 ? std::string() : std::string(static_cast<const char*>(data.get()), bytes);
}

}  // namespace trireme
