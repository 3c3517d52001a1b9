#include "data/text/words.h"

#include <fmt/format.h>

#include "data/bytes.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr std::string_view kLineBlanks = " \t\r\v\f";

/// Calls word(text, line number) for every word of every line, and once more at the end of every line that has words.
template <class Word>
void for_each_word(const std::filesystem::path& file, const std::string& next, Word word) {
  const std::vector<uint8_t> bytes = read_file(file, next);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check_utf8(text, file, next);
  int64_t line_number = 0, words = 0;
  for (size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    ++line_number;
    const int64_t before = words;
    for (size_t at = line.find_first_not_of(kLineBlanks); at != line.npos;) {
      const size_t stop = std::min(line.find_first_of(kLineBlanks, at), line.size());
      word(line.substr(at, stop - at), line_number);
      ++words;
      at = line.find_first_not_of(kLineBlanks, stop);
    }
    if (words > before) word(kEndOfSentence, line_number);
    begin = end + 1;
  }
  if (words == 0) fail_user({.where = file.string(), .what = "no words", .why = "the file is empty", .next = next});
}

}  // namespace

int32_t Vocabulary::find(std::string_view word) const {
  const auto found = ids_.find(std::string(word));
  return found == ids_.end() ? -1 : found->second;
}

int32_t Vocabulary::add(std::string_view word) {
  const auto [entry, is_new] = ids_.try_emplace(std::string(word), static_cast<int32_t>(words_.size()));
  if (is_new) words_.emplace_back(word);
  return entry->second;
}

std::vector<int32_t> read_training_text(const std::filesystem::path& file, Vocabulary& vocabulary,
                                        const std::string& next) {
  std::vector<int32_t> tokens;
  for_each_word(file, next, [&](std::string_view word, int64_t) { tokens.push_back(vocabulary.add(word)); });
  return tokens;
}

std::vector<int32_t> read_text(const std::filesystem::path& file, const Vocabulary& vocabulary,
                               const std::string& next) {
  const int32_t unknown = vocabulary.find(kUnknownWord);
  std::vector<int32_t> tokens;
  for_each_word(file, next, [&](std::string_view word, int64_t line) {
    int32_t id = vocabulary.find(word);
    if (id < 0) id = unknown;
    if (id < 0)
      fail_user({.where = fmt::format("{}:{}", file.string(), line),
                 .what = fmt::format("\"{}\"", word),
                 .why = fmt::format("the training text lacks this word and has no {}", kUnknownWord),
                 .next = next});
    tokens.push_back(id);
  });
  return tokens;
}

}  // namespace trireme
