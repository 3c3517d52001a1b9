#include "data/download/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr size_t kArchiveReadBlock = size_t{1} << 18;

using Reader = std::unique_ptr<archive, int (*)(archive*)>;

[[noreturn]] void fail_archive(const std::filesystem::path& file, std::string what, std::string why) {
  fail_user({.where = file.string(),
             .what = std::move(what),
             .why = std::move(why),
             .next = "delete the file and get the set again"});
}

/// Returns the path, relative to the folder, to which an entry may be written.
std::filesystem::path safe_path(const std::filesystem::path& file, archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) fail_archive(file, "entry without a name", "it cannot be unpacked");
  std::filesystem::path path(name);
  const bool leaves = path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  if (leaves) fail_archive(file, fmt::format("entry \"{}\"", name), "it would be written outside the target folder");
  const bool link = archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) == AE_IFLNK;
  const bool plain = archive_entry_filetype(entry) == AE_IFREG || archive_entry_filetype(entry) == AE_IFDIR;
  if (link || !plain) fail_archive(file, fmt::format("entry \"{}\"", name), "only files and folders are unpacked");
  return path.lexically_normal();
}

/// Throws a user error if the entry's path contains a link that is already in the target folder, because it could lead
/// out of it.
void check_no_links(const std::filesystem::path& file, const std::filesystem::path& folder,
                    const std::filesystem::path& inside) {
  std::filesystem::path path = folder;
  for (const auto& part : inside.parent_path()) {
    path /= part;
    if (std::filesystem::is_symlink(path))
      fail_archive(file, fmt::format("entry \"{}\"", inside.string()), fmt::format("{} is a link", path.string()));
  }
}

void write_entry(archive* reader, const std::filesystem::path& file, const std::filesystem::path& target) {
  std::filesystem::create_directories(target.parent_path());
  const std::filesystem::path part = target.string() + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  const void* block = nullptr;
  size_t count = 0;
  la_int64_t offset = 0;
  int status = ARCHIVE_OK;
  while (out && (status = archive_read_data_block(reader, &block, &count, &offset)) == ARCHIVE_OK) {
    out.seekp(offset);
    out.write(static_cast<const char*>(block), static_cast<std::streamsize>(count));
  }
  out.close();
  if (!out) {
    std::string why = std::strerror(errno);
    std::filesystem::remove(part);
    fail_run({.where = target.string(),
              .what = "cannot be written",
              .why = why,
              .next = "free space or make the folder writable, or name another one with --data-dir"});
  }
  if (status != ARCHIVE_EOF) {
    std::filesystem::remove(part);
    const char* why = archive_error_string(reader);
    fail_archive(file, fmt::format("damaged at \"{}\"", target.filename().string()), why ? why : "it ends early");
  }
  std::filesystem::rename(part, target);
}

}  // namespace

void unpack(const std::filesystem::path& file, const std::filesystem::path& folder) {
  Reader reader(archive_read_new(), archive_read_free);
  check_internal(reader != nullptr, "libarchive starts");
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_format_tar(reader.get());
  archive_read_support_format_zip(reader.get());
  auto fail_reading = [&] {
    const char* why = archive_error_string(reader.get());
    fail_archive(file, "cannot be unpacked", why ? why : "it is not an archive");
  };
  if (archive_read_open_filename(reader.get(), file.c_str(), kArchiveReadBlock) != ARCHIVE_OK) fail_reading();
  try {
    for (;;) {
      archive_entry* entry = nullptr;
      const int status = archive_read_next_header(reader.get(), &entry);
      if (status == ARCHIVE_EOF) return;
      if (status != ARCHIVE_OK) fail_reading();
      const auto inside = safe_path(file, entry);
      check_no_links(file, folder, inside);
      if (archive_entry_filetype(entry) == AE_IFDIR) std::filesystem::create_directories(folder / inside);
      else write_entry(reader.get(), file, folder / inside);
    }
  } catch (const std::filesystem::filesystem_error& error) {
    fail_run({.where = folder.string(),
              .what = "cannot be written",
              .why = error.code().message(),
              .next = "make the folder writable, or name another one with --data-dir"});
  }
}

}  // namespace trireme
