#include "base/json_file.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "expect_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class JsonFile : public ::testing::Test {
 protected:
  JsonFile() : folder_(fs::path(::testing::TempDir()) / ("json_file_test." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~JsonFile() override { fs::remove_all(folder_); }

  size_t files() const { return size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator())); }

  fs::path folder_;
};

TEST_F(JsonFile, RoundTrip) {
  const auto value = nlohmann::json::parse(R"({"a": [1, 2.5, "x"], "b": {"c": null}})");
  write_json_file(folder_ / "x.json", value);
  EXPECT_EQ(read_json_file(folder_ / "x.json"), value);
  EXPECT_EQ(read_file(folder_ / "x.json").back(), '\n');
  EXPECT_EQ(files(), 1u) << "a temporary file was left";
}

TEST_F(JsonFile, MissingAndCorruptFilesNameThePathAndTheByte) {
  expect_error(Blame::user, {"x.json", "cannot be read", "No such file"}, [&] { read_json_file(folder_ / "x.json"); });
  std::ofstream(folder_ / "x.json") << "{\"a\": 1,,}";
  expect_error(Blame::user, {"x.json", "not valid JSON at byte 9 of 10"}, [&] { read_json_file(folder_ / "x.json"); });
  std::ofstream(folder_ / "x.json") << "";
  expect_error(Blame::user, {"x.json", "is empty"}, [&] { read_json_file(folder_ / "x.json"); });
  for (const char* cut : {"{\"", "{\"a\": 1", "{\"a\": tr"}) {
    std::ofstream(folder_ / "x.json") << cut;
    expect_error(Blame::user,
                 {"x.json", fmt::format("ends too early, after byte {}: not valid JSON", std::strlen(cut))},
                 [&] { read_json_file(folder_ / "x.json"); });
  }
  expect_error(Blame::user, {"cannot be read", "directory"}, [&] { read_json_file(folder_); });
}

TEST_F(JsonFile, BytesThatAreNotUtf8DoNotStopTheWriter) {
  write_json_file(folder_ / "x.json", {{"path", "caf\xe9"}});
  EXPECT_EQ(read_json_file(folder_ / "x.json")["path"], "caf\xef\xbf\xbd");
}

TEST_F(JsonFile, WriteErrorsNameThePathAndTheReason) {
  expect_error(Blame::user, {"no/x.json", "cannot be written", "No such file"},
               [&] { write_json_file(folder_ / "no" / "x.json", 1); });
  fs::create_directories(folder_ / "taken" / "inside");
  expect_error(Blame::user, {"taken", "cannot be written", "directory"},
               [&] { write_json_file(folder_ / "taken", 1); });
  EXPECT_EQ(files(), 1u) << "a temporary file was left";
}

TEST_F(JsonFile, AFullDiskLeavesTheOldFileWhole) {
  write_json_file(folder_ / "x.json", "old");
  // A limit on the file size makes a write fail halfway, as a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small{1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error(Blame::run, {"x.json", "cannot be written", "File too large"},
               [&] { write_json_file(folder_ / "x.json", std::string(5000, 'n')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_json_file(folder_ / "x.json"), "old");
  EXPECT_EQ(files(), 1u) << "a temporary file was left";
}

TEST_F(JsonFile, AReaderNeverSeesHalfAFile) {
  const fs::path path = folder_ / "x.json";
  const std::string a(20'000, 'a'), b(30'000, 'b');
  write_file_atomically(path, a);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 60; ++i) write_file_atomically(path, i % 2 == 0 ? b : a);
    done = true;
  });
  while (!done) {
    const std::string seen = read_file(path);
    ASSERT_TRUE(seen == a || seen == b) << seen.size();
  }
  writer.join();
}

}  // namespace
}  // namespace trireme
