// Sentences in two languages, line by line in two files, and a dataset of them for translation.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/on_error.h"
#include "data/text/token_rows.h"
#include "data/text/tokenizer.h"

namespace trireme {

struct ParallelText {
  std::vector<std::string> source;
  std::vector<std::string> target;  ///< line i translates line i of source
  int64_t skipped = 0;              ///< pairs left out
};

/// Reads two files, gzipped or plain. User errors, with file:line and byte: bytes that are not UTF-8; an empty line
/// (with OnError::skip, the pair is skipped and counted in both cases). Always user errors: different numbers of lines;
/// a missing or empty file.
ParallelText read_parallel_text(const std::filesystem::path& source, const std::filesystem::path& target,
                                OnError on_error = OnError::fail);

/// Sample i is int64 [S + T]: the source's tokens and </s>, padded to S; then the decoder's input, <s> and the target's
/// tokens, padded to T. Its target is int64 [T]: the target's tokens and </s>, padded. A sentence that is too long is
/// cut, without </s>: it has no end to learn. Immutable; thread-safe.
class TranslationSet final : public PaddedSet {
 public:
  /// S = T = `length`. User error: a length below 2.
  TranslationSet(ParallelText text, std::shared_ptr<const Tokenizer> source, std::shared_ptr<const Tokenizer> target,
                 int64_t length);

  int64_t size() const override { return source_rows_.count(); }
  Shape sample_shape() const override { return {2 * length_}; }
  Shape target_shape() const override { return {length_}; }
  LearningTask task() const override { return LearningTask::translation; }
  int64_t classes() const override { return target_->size(); }
  /// The vocabulary of both parts of the data: the larger one, if each language has its own.
  int64_t vocabulary() const override { return std::max(source_->size(), target_->size()); }
  PartLengths parts(int64_t i) const override;
  PartLengths padded_parts() const override { return {length_, length_}; }
  Samples get_padded(std::span<const int64_t> indices, const PartLengths& to) const override;

  int64_t source_length() const { return length_; }  ///< S: data[:, :S] is the source
  int64_t target_length() const { return length_; }  ///< T: data[:, S:] is the decoder's input

  /// Sentences as in the text, for BLEU.
  const std::string& source_text(int64_t i) const { return text_.source.at(static_cast<size_t>(i)); }
  const std::string& reference(int64_t i) const { return text_.target.at(static_cast<size_t>(i)); }
  /// Returns the sentence of target tokens that a model chose, up to the first </s>. User error: ids outside the
  /// vocabulary.
  std::string decode(std::span<const int64_t> ids) const { return target_->decode(ids); }

  int64_t cut() const { return cut_; }  ///< pairs with a sentence that was too long
  void keep_first(int64_t n);           ///< keeps only the first n samples; 0: all

 private:
  ParallelText text_;
  std::shared_ptr<const Tokenizer> source_;
  std::shared_ptr<const Tokenizer> target_;
  int64_t length_;
  TokenRows source_rows_;  ///< with </s>
  TokenRows target_rows_;  ///< with <s> before and </s> after, if they fit
  int64_t cut_ = 0;
};

}  // namespace trireme
