#include "data/source_words.h"

#include <fmt/format.h>

#include <string_view>

namespace trireme {

std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string count_of(int64_t n, std::string_view singular) {
  return fmt::format("{} {}{}", with_commas(n), singular, n == 1 ? "" : "s");
}

std::string used_part(int64_t train, int64_t whole_train, int64_t test, int64_t whole_test, const char* unit) {
  if (train == whole_train && test == whole_test) return "";
  auto count = [](int64_t n, int64_t whole) {
    return n == whole ? with_commas(n) : with_commas(n) + " of " + with_commas(whole);
  };
  auto units = [&](int64_t whole) {
    const std::string_view plural = unit;
    return whole == 1 && plural.ends_with('s') ? plural.substr(0, plural.size() - 1) : plural;
  };
  return fmt::format(", {} training {}, {} test {}", count(train, whole_train), units(whole_train),
                     count(test, whole_test), units(whole_test));
}

}  // namespace trireme
