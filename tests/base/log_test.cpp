#include "base/log.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include "expect_error.h"

namespace trireme {
namespace {

TEST(Log, WritesPlainLinesToAFileAtTheChosenLevel) {
  ::setenv("TRIREME_LOG", "warn", 1);
  ::testing::internal::CaptureStderr();
  set_up_logging();
  spdlog::info("quiet");
  spdlog::warn("loud {}", 3);
  spdlog::default_logger()->flush();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ::testing::MatchesRegex("....-..-.. ..:..:.. warning: loud 3\n"));
  EXPECT_EQ(warning_in("rank 1: " + text), "loud 3\n");
  EXPECT_FALSE(warning_in("2026-11-28 22:53:17 info: no warning"));
}

TEST(Log, AnUnknownLevelIsAUserError) {
  ::setenv("TRIREME_LOG", "wran", 1);
  expect_error(Blame::user, {"TRIREME_LOG", "\"wran\"", "trace, debug", "did you mean \"warn\"?"},
               [] { set_up_logging(); });
  ::unsetenv("TRIREME_LOG");
  set_up_logging();
  EXPECT_EQ(spdlog::get_level(), spdlog::level::info);
}

}  // namespace
}  // namespace trireme
