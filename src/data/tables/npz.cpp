#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>

#include "data/tables/npy.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kArrayReadBlock = size_t{1} << 18;
// Bytes. A larger entry is an error or an attack, because it would not fit in memory.
constexpr size_t kMaxEntry = size_t{1} << 36;
constexpr std::string_view kExtension = ".npy";

using Reader = std::unique_ptr<archive, int (*)(archive*)>;

[[noreturn]] void fail_npz(const std::filesystem::path& file, std::string what, std::string why) {
  fail_user({.where = file.string(),
             .what = std::move(what),
             .why = std::move(why),
             .next = "save it again with numpy.savez"});
}

std::string reason(archive* reader) {
  const char* why = archive_error_string(reader);
  return why ? why : "it is damaged";
}

std::vector<uint8_t> read_entry(archive* reader, const std::filesystem::path& file, const std::string& name) {
  std::vector<uint8_t> bytes;
  for (;;) {
    const size_t before = bytes.size();
    bytes.resize(before + kArrayReadBlock);
    const la_ssize_t count = archive_read_data(reader, bytes.data() + before, kArrayReadBlock);
    if (count < 0) fail_npz(file, fmt::format("damaged at \"{}\", byte {}", name, before), reason(reader));
    bytes.resize(before + static_cast<size_t>(count));
    if (count == 0) return bytes;
    if (bytes.size() > kMaxEntry) fail_npz(file, fmt::format("entry \"{}\"", name), "it unpacks to more than 64 GiB");
  }
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::filesystem::path& file) {
  Reader reader(archive_read_new(), archive_read_free);
  check_internal(reader != nullptr, "libarchive starts");
  archive_read_support_format_zip(reader.get());
  if (archive_read_open_filename(reader.get(), file.c_str(), kArrayReadBlock) != ARCHIVE_OK)
    fail_npz(file, "cannot be read", reason(reader.get()));
  std::vector<std::pair<std::string, at::Tensor>> arrays;
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status != ARCHIVE_OK) fail_npz(file, "not a valid .npz", reason(reader.get()));
    const char* path = archive_entry_pathname(entry);
    const std::string name = path ? path : "";
    if (!name.ends_with(kExtension)) fail_npz(file, fmt::format("entry \"{}\"", name), "an .npz holds .npy files only");
    const std::vector<uint8_t> bytes = read_entry(reader.get(), file, name);
    arrays.emplace_back(name.substr(0, name.size() - kExtension.size()),
                        parse_npy(bytes, fmt::format("{}, {}", file.string(), name)));
  }
  if (arrays.empty()) fail_npz(file, "no arrays", "the archive is empty");
  return arrays;
}

}  // namespace trireme
