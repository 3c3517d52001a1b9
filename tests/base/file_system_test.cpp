#include "base/file_system.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/json_file.h"
#include "expect_error.h"
#include "faulty_file_system.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using Faulty = trireme::test_support::FaultyFileSystem;

class FileSystemTest : public ::testing::Test {
 protected:
  FileSystemTest() { fs::create_directories(folder_ / "removed"); }
  ~FileSystemTest() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("file_system_test." + std::to_string(::getpid()));
};

TEST_F(FileSystemTest, BehavesAsDocumented) {
  FileSystem& files = real_file_system();
  files.create_folder(folder_ / "a");
  files.create_folder(folder_ / "a");
  {
    const auto file = files.create(folder_ / "a" / "x");
    file->append("one, ");
    file->append("");
    file->append("two");
    file->sync();
  }
  files.sync_folder(folder_ / "a");
  EXPECT_EQ(read_file(folder_ / "a" / "x"), "one, two");
  files.rename(folder_ / "a", folder_ / "b");
  EXPECT_THAT(names_in(folder_), ElementsAre("b", "removed"));
  files.remove(folder_ / "b" / "x");
  files.remove(folder_ / "b");
  EXPECT_THAT(names_in(folder_), ElementsAre("removed"));
}

TEST_F(FileSystemTest, ErrorsNameThePath) {
  FileSystem& files = real_file_system();
  files.create(folder_ / "x");
  expect_error(Blame::run, {(folder_ / "x").string(), "exists"}, [&] { files.create(folder_ / "x"); });
  expect_error(Blame::user, {(folder_ / "no" / "x").string(), "create its folder"},
               [&] { files.create(folder_ / "no" / "x"); });
  expect_error(Blame::user, {"no/folder"}, [&] { files.create_folder(folder_ / "no" / "folder"); });
  expect_error(Blame::run, {(folder_ / "x").string()}, [&] { files.create_folder(folder_ / "x"); });
  expect_error(Blame::user, {"new"}, [&] { files.rename(folder_ / "no", folder_ / "new"); });
  expect_error(Blame::user, {"no"}, [&] { files.sync_folder(folder_ / "no"); });
  expect_error(Blame::run, {folder_.string(), "not empty"}, [&] { files.remove(folder_); });
  expect_error(Blame::user, {"no", "cannot be read"}, [&] { names_in(folder_ / "no"); });
}

/// Tests of crashes rely on this.
TEST_F(FileSystemTest, AFaultyOneLosesUnsyncedData) {
  Faulty files(folder_ / "removed");
  const auto write = [&](const std::string& name, bool syncs) {
    const auto file = files.create(folder_ / name);
    file->append("kept");
    if (syncs) file->sync();
    file->append(" lost");
  };
  write("synced", true);
  files.sync_folder(folder_);
  write("unsynced", true);
  files.rename(folder_ / "synced", folder_ / "renamed");
  files.fail_at(files.operations(), Faulty::Fault::crash);
  EXPECT_THROW(files.remove(folder_ / "renamed"), Faulty::Crash);
  EXPECT_THROW(files.sync_folder(folder_), Faulty::Crash) << "nothing happens after a crash";
  files.lose(Faulty::Loss::bytes_and_names);
  EXPECT_THAT(names_in(folder_), ElementsAre("removed", "synced"));
  EXPECT_EQ(read_file(folder_ / "synced"), "kept");
}

/// Syncing a folder makes its own name in the parent folder no more durable, and syncing the parent does not make the
/// names inside the folder durable.
TEST_F(FileSystemTest, AFaultyOneKnowsEachFoldersNames) {
  for (const bool syncs_inside : {false, true}) {
    Faulty files(folder_ / "removed");
    files.create_folder(folder_ / "a");
    files.create(folder_ / "a" / "x");
    if (syncs_inside) files.sync_folder(folder_ / "a");
    files.rename(folder_ / "a", folder_ / "b");
    files.sync_folder(folder_);
    files.lose(Faulty::Loss::names);
    EXPECT_EQ(fs::exists(folder_ / "b" / "x"), syncs_inside);
    fs::remove_all(folder_ / "b");
  }
}

TEST_F(FileSystemTest, AFaultyOneUndoesUnsyncedRemovals) {
  Faulty files(folder_ / "removed");
  files.create_folder(folder_ / "a");
  files.create(folder_ / "a" / "x")->append("text");
  files.sync_folder(folder_ / "a");
  files.sync_folder(folder_);
  files.remove(folder_ / "a" / "x");
  files.remove(folder_ / "a");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  files.lose(Faulty::Loss::names);
  EXPECT_EQ(read_file(folder_ / "a" / "x"), "text");
}

}  // namespace
}  // namespace trireme
