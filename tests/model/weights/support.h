// Writes files of weights byte by byte.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme::test_support {

namespace fs = std::filesystem;

/// A folder for the test; it is removed at the end.
class WeightsFiles : public ::testing::Test {
 protected:
  WeightsFiles() {
    static std::atomic<int> counter{0};
    folder_ = fs::path(::testing::TempDir()) /
              ("weights_test." + std::to_string(::getpid()) + "." + std::to_string(counter++));
    fs::create_directories(folder_);
  }
  ~WeightsFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  fs::path folder_;
};

/// `count` bytes of a number, the lowest first.
inline std::string little_endian(uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += char(value >> (8 * i) & 0xff);
  return bytes;
}

/// A safetensors file by the format's description.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

/// Returns the user error's line; the test fails if `action` throws no user error.
inline std::string user_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(int(error.blame()), int(Blame::user)) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), 700u) << text;
    return text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an error of ours: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace trireme::test_support
