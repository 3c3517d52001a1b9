// `doctor` only shows what base/machine.h finds, so it is tested here without the rest of the program.
#include "cli/doctor.h"

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_file.h"
#include "base/machine.h"
#include "cli/bf16_speed.h"

namespace trireme {
namespace {

/// The text with each item on one line; the output breaks long ones and indents what continues them.
std::string unbroken(const std::string& text) { return std::regex_replace(text, std::regex("\n {4,}"), " "); }

TEST(Doctor, ListsWhatTheMachineHasAndWhatIsSlow) {
  std::ostringstream out;
  EXPECT_EQ(run_doctor(out, 1.8), 0);
  const std::string text = unbroken(out.str());
  for (const char* name :
       {"cores", "instructions", "bf16", "memory", "GPUs", "libtorch", "BLAS", "oneDNN", "malloc", "MPI"})
    EXPECT_THAT(text, ::testing::HasSubstr(std::string("\n  ") + name + " ")) << "not a line of its own";
  const Machine machine = inspect_machine(false);
  EXPECT_THAT(text, ::testing::HasSubstr(machine.blas.name));
  for (const std::string& warning : slow_warnings(machine))
    EXPECT_THAT(text, ::testing::HasSubstr("  - " + warning + "\n"));
}

TEST(Doctor, AdvisesOnBf16ByItsMeasuredSpeed) {
  const auto text = [](double speed) {
    std::ostringstream out;
    run_doctor(out, speed);
    return unbroken(out.str());
  };
  EXPECT_THAT(text(1.8), ::testing::HasSubstr("1.80 times as fast as in float32"));
  EXPECT_THAT(text(1.8), ::testing::Not(::testing::HasSubstr("slower than float32")));
  if (inspect_machine(false).gpus == 0) {
    EXPECT_THAT(text(0.5), ::testing::HasSubstr("slower than float32 here: products of matrices take 2.00 times"));
  }
}

TEST(Doctor, MeasuresBf16OnceAndKeepsIt) {
  const std::filesystem::path cache =
      std::filesystem::temp_directory_path() / ("trireme-doctor-" + std::to_string(getpid()));
  const double measured = bf16_speed(cache);
  EXPECT_GT(measured, 0);
  nlohmann::json kept = read_json_file(cache / "bf16-speed.json");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_DOUBLE_EQ(kept.begin()->get<double>(), measured);
  *kept.begin() = 123.5;
  write_json_file(cache / "bf16-speed.json", kept);
  EXPECT_EQ(bf16_speed(cache), 123.5);
  write_json_file(cache / "bf16-speed.json", nlohmann::json::array());
  EXPECT_NE(bf16_speed(cache), 123.5) << "a damaged file is replaced";
  EXPECT_EQ(read_json_file(cache / "bf16-speed.json").size(), 1u);
  std::filesystem::remove_all(cache);
}

}  // namespace
}  // namespace trireme
