// Sentences as token ids, and back. The first ids mean the same in every vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/task.h"

namespace trireme {

inline constexpr int32_t kUnknownToken = 1;   ///< <unk>; kPadding (0) is <pad>
inline constexpr int32_t kBeginToken = 2;     ///< <s>
inline constexpr int32_t kEndToken = 3;       ///< </s>
inline constexpr int64_t kSpecialTokens = 4;  ///< all ids from here on stand for text

/// Immutable; safe from many threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t size() const = 0;  ///< of the vocabulary, special tokens included
  /// Tokens of a sentence (valid UTF-8), without <s> and </s>.
  virtual std::vector<int32_t> encode(std::string_view sentence) const = 0;
  /// The sentence up to the first </s>; <pad> and <s> are left out. Ids outside the vocabulary are a user error.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  /// `ids`: <unk> and text.
  virtual std::string join(const std::vector<int32_t>& ids) const = 0;
};

/// What a token of a counted vocabulary is: what stands between blanks; the same with punctuation taken off as the
/// tokenizer 13a of BLEU does (split_13a); a Unicode code point.
enum class TokenUnit { word, punctuated_word, character };

struct CountedVocabulary {
  TokenUnit unit = TokenUnit::word;
  int64_t max_size = 0;   ///< special tokens included; the most frequent are kept; 0: no limit
  int64_t min_count = 1;  ///< rarer ones become <unk>
  bool lower = false;     ///< everything in lower case (to_lower)
};

/// Tokens counted in the sentences, numbered from the most frequent on, in byte order where they are equally frequent.
/// User error: nothing to count, or max_size leaves no room for text.
std::unique_ptr<Tokenizer> count_vocabulary(std::span<const std::string> sentences, const CountedVocabulary& options);

/// User error: a vocabulary of this size would hold special tokens only.
void check_room_for_text(int64_t size);

struct PieceOptions {
  int64_t size = 8000;           ///< special tokens included
  std::string kind = "unigram";  ///< or "bpe"
  bool lower = false;            ///< case folding before anything else
};

/// A SentencePiece model of the sentences, which depends on them and the options only. Kept in `cache` under a name
/// made of both, and read from there the next time. User error: a size larger than the text allows or smaller than its
/// characters need; any other of the library's. Run error: this build has no SentencePiece, or the cache cannot be
/// written.
std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string>& sentences, const PieceOptions& options,
                                               const std::filesystem::path& cache);

/// A .model file. Its special pieces, whatever their ids, get ours, and its other pieces follow in its order. User
/// error: not a model, or one without <unk>. Run error: this build has no SentencePiece.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& model);

/// Whether this build has SentencePiece.
bool sentencepiece_available();

}  // namespace trireme
