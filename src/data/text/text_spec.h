// An experiment's settings for the vocabulary of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

struct TextSpec {
  /// "word", "13a" (words, with punctuation as separate words), "character", "sentencepiece" (unigram) or
  /// "sentencepiece-bpe". Empty: the set's own ("sentencepiece" for translation, else "word").
  std::string tokenizer = {};
  int64_t vocabulary = 0;  ///< largest number of tokens, special ones included; 0: all that occur, or kDefaultPieces
  int64_t min_count = 1;   ///< words and characters that occur less often become <unk>
  bool lower = false;      ///< true: everything in lower case
  std::optional<std::filesystem::path> model = {};  ///< an existing SentencePiece model
  bool joint = true;                                ///< true: one vocabulary for both languages of a translation
  std::string source = "en";                        ///< "multi30k": languages
  std::string target = "de";
};

}  // namespace trireme
