#include "data/download/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <string>

#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::HasSubstr;

/// Writes a .tar.gz with one entry.
void write_archive(const std::filesystem::path& file, const std::string& name, unsigned type, const std::string& bytes,
                   const std::string& link = "") {
  archive* out = archive_write_new();
  archive_write_add_filter_gzip(out);
  archive_write_set_format_pax_restricted(out);
  ASSERT_EQ(archive_write_open_filename(out, file.c_str()), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, name.c_str());
  archive_entry_set_filetype(entry, type);
  archive_entry_set_perm(entry, 0644);
  archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
  if (!link.empty()) archive_entry_set_symlink(entry, link.c_str());
  archive_write_header(out, entry);
  archive_write_data(out, bytes.data(), bytes.size());
  archive_entry_free(entry);
  archive_write_close(out);
  archive_write_free(out);
}

TEST(Unpack, WritesFilesBelowTheFolder) {
  TemporaryFolder folder;
  std::string bytes(1 << 20, 'b');
  write_archive(folder / "a.tar.gz", "sub/./file.bin", AE_IFREG, bytes);
  unpack(folder / "a.tar.gz", folder / "to");
  EXPECT_EQ(read_text(folder / "to/sub/file.bin"), bytes);
  EXPECT_FALSE(std::filesystem::exists(folder / "to/sub/file.bin.part"));
}

TEST(Unpack, RefusesEntriesThatLeaveTheFolder) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "to/deep");
  for (const std::string& name : {std::string("../out"), std::string("a/../../out"), (folder / "out").string()}) {
    write_archive(folder / "a.tar.gz", name, AE_IFREG, "x");
    EXPECT_THAT(error_of([&] { unpack(folder / "a.tar.gz", folder / "to"); }), HasSubstr("outside the target folder"));
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  }
  write_archive(folder / "a.tar.gz", "link", AE_IFLNK, "", "/etc");
  EXPECT_THAT(error_of([&] { unpack(folder / "a.tar.gz", folder / "to"); }), HasSubstr("only files and folders"));
  std::filesystem::create_directories(folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "to/way");
  write_archive(folder / "a.tar.gz", "way/file", AE_IFREG, "x");
  EXPECT_THAT(error_of([&] { unpack(folder / "a.tar.gz", folder / "to"); }), HasSubstr("is a link"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "elsewhere"));
}

TEST(Unpack, LeavesNoHalfFileOfADamagedArchive) {
  TemporaryFolder folder;
  std::string bytes(1 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 2654435761u) >> 11);
  write_archive(folder / "a.tar.gz", "file.bin", AE_IFREG, bytes);
  std::string whole = read_text(folder / "a.tar.gz");
  write_file(folder / "cut.tar.gz", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(error_of([&] { unpack(folder / "cut.tar.gz", folder / "to"); }), HasSubstr("cut.tar.gz: damaged"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "to"));
  write_file(folder / "text.tar.gz", "no archive at all");
  EXPECT_THAT(error_of([&] { unpack(folder / "text.tar.gz", folder / "to"); }), HasSubstr("cannot be unpacked"));
}

}  // namespace
}  // namespace trireme
