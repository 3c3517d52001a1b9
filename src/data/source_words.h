// Words for TaskData::source.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

/// 20000 -> "20,000"
std::string with_commas(int64_t n);

/// "", or what part of the whole set is used: ", 2 of 3 training images, 1 test images".
std::string used_part(int64_t train, int64_t whole_train, int64_t test, int64_t whole_test, const char* unit = "images");

}  // namespace trireme
