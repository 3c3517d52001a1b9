// Words for TaskData::source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// 20000 -> "20,000"
std::string with_commas(int64_t n);

/// "1 row", "20,000 rows"
std::string count_of(int64_t n, std::string_view singular);

/// Returns "" if the whole set is used, else the part that is used: ", 2 of 3 training images, 1 test image".
std::string used_part(int64_t train, int64_t whole_train, int64_t test, int64_t whole_test,
                      const char* unit = "images");

}  // namespace trireme
