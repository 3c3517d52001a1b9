#include "data/source_words.h"

#include <fmt/format.h>

namespace trireme {

std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string used_part(int64_t train, int64_t whole_train, int64_t test, int64_t whole_test, const char* unit) {
  if (train == whole_train && test == whole_test) return "";
  auto count = [](int64_t n, int64_t whole) {
    return n == whole ? with_commas(n) : with_commas(n) + " of " + with_commas(whole);
  };
  return fmt::format(", {} training {}, {} test {}", count(train, whole_train), unit, count(test, whole_test), unit);
}

}  // namespace trireme
