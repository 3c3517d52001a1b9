// Checks of calls that fail with Trireme's error: its blame, and words of its one-line message.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/error.h"

namespace trireme {

/// The message must contain all `parts`.
inline void expect_error(Blame blame, const std::vector<std::string>& parts, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(int(error.blame()), int(blame)) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const std::string& part : parts) EXPECT_THAT(text, ::testing::HasSubstr(part));
    return;
  }
  FAIL() << "nothing was thrown; expected an error with: " << (parts.empty() ? "" : parts.front());
}

/// Returns the message of the error that `action` throws; "no error" if it throws none. Fails the test if the error has
/// another blame.
inline std::string message_of(Blame blame, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(int(error.blame()), int(blame)) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace trireme
