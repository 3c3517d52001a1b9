// Texts of words separated by blanks, one sentence a line, as numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

inline constexpr std::string_view kEndOfSentence = "<eos>";  ///< put after every line
inline constexpr std::string_view kUnknownWord =
    "<unk>";  ///< stands for words that the vocabulary lacks, where it has it

/// Words numbered in the order in which they were added.
class Vocabulary {
 public:
  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  const std::string& word(int32_t id) const { return words_.at(static_cast<size_t>(id)); }
  /// -1 when it has no such word.
  int32_t find(std::string_view word) const;
  int32_t add(std::string_view word);  ///< the old number of a word that it has

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, int32_t> ids_;
};

/// A training text: its words make the vocabulary. Empty lines are left out.
/// User error when the file is missing, cannot be read, is not UTF-8 or holds no words; `next` is what the message
/// advises.
std::vector<int32_t> read_training_text(const std::filesystem::path& file, Vocabulary& vocabulary,
                                        const std::string& next);

/// A text in the words of a vocabulary; others are read as <unk>. User errors as above, and, naming line and word, when
/// a word is unknown and the vocabulary has no <unk>.
std::vector<int32_t> read_text(const std::filesystem::path& file, const Vocabulary& vocabulary,
                               const std::string& next);

}  // namespace trireme
