// What an experiment says about the vocabulary of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

struct TextSpec {
  /// "word", "13a" (words with punctuation apart), "character", "sentencepiece" (unigram) or "sentencepiece-bpe";
  /// empty: the set's own
  /// ("sentencepiece" for translation, else "word").
  std::string tokenizer = {};
  int64_t vocabulary = 0;  ///< most tokens, special ones included; 0: all that occur, or kDefaultPieces
  int64_t min_count = 1;   ///< words and characters that occur less often are <unk>
  bool lower = false;      ///< everything in lower case
  std::optional<std::filesystem::path> model = {};  ///< a SentencePiece model that is there already
  bool joint = true;                                ///< translation: one vocabulary for both languages
  std::string source = "en";                        ///< "multi30k": languages
  std::string target = "de";
};

}  // namespace trireme
