// Converts sentences to token ids and back. The first ids mean the same in every vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

inline constexpr int32_t kUnknownToken = 1;   ///< <unk>; kPadding (0) is <pad>
inline constexpr int32_t kBeginToken = 2;     ///< <s>
inline constexpr int32_t kEndToken = 3;       ///< </s>
inline constexpr int64_t kSpecialTokens = 4;  ///< all ids from this one on represent text

/// Immutable; thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t size() const = 0;  ///< size of the vocabulary, special tokens included
  /// Returns the tokens of a sentence (valid UTF-8), without <s> and </s>.
  virtual std::vector<int32_t> encode(std::string_view sentence) const = 0;
  /// Returns the sentence up to the first </s>; <pad> and <s> are left out. Ids outside the vocabulary are a user
  /// error.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  /// `ids` are <unk> or text.
  virtual std::string join(const std::vector<int32_t>& ids) const = 0;
};

/// The unit of a counted vocabulary. word: the text between blanks; punctuated_word: the same, with punctuation
/// separated as in BLEU's tokenizer 13a (split_13a); character: a Unicode code point.
enum class TokenUnit { word, punctuated_word, character };

struct CountedVocabulary {
  TokenUnit unit = TokenUnit::word;
  int64_t max_size = 0;   ///< special tokens included; the most frequent units are kept; 0: no limit
  int64_t min_count = 1;  ///< rarer units become <unk>
  bool lower = false;     ///< true: everything in lower case (to_lower)
};

/// Counts tokens in the sentences and numbers them, the most frequent first, in byte order if they are equally
/// frequent. User errors: nothing to count; max_size leaves no room for text.
std::unique_ptr<Tokenizer> count_vocabulary(std::span<const std::string> sentences, const CountedVocabulary& options);

/// Throws a user error if a vocabulary of this size would hold special tokens only.
void check_room_for_text(int64_t size);

struct PieceOptions {
  int64_t size = 8000;           ///< special tokens included
  std::string kind = "unigram";  ///< "unigram" or "bpe"
  bool lower = false;            ///< true: case folding before anything else
};

/// Returns a SentencePiece model of the sentences, which depends on them and the options only. It is stored in `cache`
/// under a name made of both, and read from there the next time. User errors: a size larger than the text allows or
/// smaller than its characters need; any other error of the library. Run errors: this build has no SentencePiece; the
/// cache cannot be written.
std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string>& sentences, const PieceOptions& options,
                                               const std::filesystem::path& cache);

/// Loads a .model file. Its special pieces get Trireme's ids, whatever their own ids; its other pieces follow in its
/// order. User errors: not a model; a model without <unk>. Run error: this build has no SentencePiece.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& model);

/// True if this build has SentencePiece.
bool sentencepiece_available();

}  // namespace trireme
