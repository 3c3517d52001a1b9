#include "base/file.h"

#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "base/json_file.h"
#include "expect_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() : folder_(fs::path(::testing::TempDir()) / ("file_test." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~FileTest() override { fs::remove_all(folder_); }

  size_t files() const { return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }

  fs::path folder_;
};

TEST_F(FileTest, PiecesBecomeOneFileAtCommit) {
  {
    AtomicFile file(folder_ / "x");
    file.write("ab");
    file.write("");
    file.write(std::string("c\0d", 3));
    EXPECT_FALSE(fs::exists(folder_ / "x"));
    file.commit();
    EXPECT_EQ(read_file(folder_ / "x"), std::string("abc\0d", 5));
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, WithoutCommitTheOldFileStays) {
  write_file_atomically(folder_ / "x", "old");
  {
    AtomicFile file(folder_ / "x");
    file.write("new");
  }
  EXPECT_EQ(read_file(folder_ / "x"), "old");
  EXPECT_EQ(files(), 1u) << "a temporary file was left";
}

TEST_F(FileTest, ReadsAtAnyOffset) {
  write_file_atomically(folder_ / "x", "0123456789");
  const InputFile file(folder_ / "x");
  EXPECT_EQ(file.size(), 10u);
  std::string bytes(4, ' ');
  file.read(6, bytes.data(), 4);
  EXPECT_EQ(bytes, "6789");
  file.read(10, bytes.data(), 0);
  expect_error(Blame::run, {"internal error"}, [&] { file.read(7, bytes.data(), 4); });
  expect_error(Blame::run, {"internal error"}, [&] { file.read(11, bytes.data(), 0); });
}

TEST_F(FileTest, AFileThatShrankIsNamed) {
  write_file_atomically(folder_ / "x", "0123456789");
  const InputFile file(folder_ / "x");
  fs::resize_file(folder_ / "x", 3);
  std::string bytes(10, ' ');
  expect_error(Blame::run, {"x: ends at byte 3: it had 10 bytes"}, [&] { file.read(0, bytes.data(), 10); });
}

TEST_F(FileTest, OnlyRegularFilesAreRead) {
  expect_error(Blame::user, {"cannot be read", "No such file"}, [&] { InputFile(folder_ / "gone"); });
  expect_error(Blame::user, {"cannot be read", "directory"}, [&] { InputFile file{folder_}; });
  expect_error(Blame::user, {"/dev/zero", "not a regular file"}, [] { InputFile file{"/dev/zero"}; });
}

}  // namespace
}  // namespace trireme
