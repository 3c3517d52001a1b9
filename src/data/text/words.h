// Reads texts of words separated by blanks, one sentence per line, as numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

inline constexpr std::string_view kEndOfSentence = "<eos>";  ///< added after every line
/// Represents words that the vocabulary lacks, if the vocabulary has it.
inline constexpr std::string_view kUnknownWord = "<unk>";

/// The words of a vocabulary, numbered in the order in which they were added.
class Vocabulary {
 public:
  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  const std::string& word(int32_t id) const { return words_.at(static_cast<size_t>(id)); }
  /// Returns -1 if it has no such word.
  int32_t find(std::string_view word) const;
  int32_t add(std::string_view word);  ///< returns the existing number of a known word

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, int32_t> ids_;
};

/// Reads a training text; its words make the vocabulary. Empty lines are ignored. User error if the file is missing,
/// cannot be read, is not UTF-8 or holds no words; `next` is the advice in the message.
std::vector<int32_t> read_training_text(const std::filesystem::path& file, Vocabulary& vocabulary,
                                        const std::string& next);

/// Reads a text with the words of a vocabulary; other words become <unk>. User errors: as above; with line and word, if
/// a word is unknown and the vocabulary has no <unk>.
std::vector<int32_t> read_text(const std::filesystem::path& file, const Vocabulary& vocabulary,
                               const std::string& next);

}  // namespace trireme
