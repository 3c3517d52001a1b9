// Sentences with a class each, as a file of tab-separated values and as a dataset.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/on_error.h"
#include "data/text/token_rows.h"
#include "data/text/tokenizer.h"

namespace trireme {

struct LabelledText {
  std::vector<std::string> labels;     ///< without surrounding blanks
  std::vector<std::string> sentences;  ///< one per label
  std::vector<int64_t> lines;          ///< in the file, from 1
  int64_t skipped = 0;                 ///< lines left out
};

/// Reads a file, gzipped or plain, of lines "label<tab>sentence"; empty lines are ignored. There is no quoting: quotes
/// are text. User errors, with file:line and column or byte: no tab; more than one tab; an empty label or sentence;
/// bytes that are not UTF-8. With OnError::skip, these lines are skipped and counted. Always user errors: no lines; a
/// missing file.
LabelledText read_labelled_text(const std::filesystem::path& file, OnError on_error = OnError::fail);

/// Sample i is <s>, the sentence's tokens, </s> and padding: int64 [length]. If a sentence is too long, its last tokens
/// are removed, but not </s>. Immutable; `get` is thread-safe.
class SentenceSet final : public PaddedSet {
 public:
  /// `classes`: the labels in the order of their numbers. `name` and the lines of `text` give the position of a label
  /// in messages. User errors: a length below 3; a label that is not one of the classes (with OnError::skip, its sample
  /// is left out).
  SentenceSet(const LabelledText& text, const std::vector<std::string>& classes,
              std::shared_ptr<const Tokenizer> tokenizer, int64_t length, const std::string& name,
              OnError on_error = OnError::fail);

  int64_t size() const override { return rows_.count(); }
  Shape sample_shape() const override { return {length_}; }
  int64_t classes() const override { return static_cast<int64_t>(classes_.size()); }
  int64_t vocabulary() const override { return tokenizer_->size(); }
  PartLengths parts(int64_t i) const override { return {static_cast<int64_t>(rows_.row(i).size()), 0}; }
  PartLengths padded_parts() const override { return {length_, 0}; }
  Samples get_padded(std::span<const int64_t> indices, const PartLengths& to) const override;

  int64_t cut() const { return cut_; }          ///< sentences that were too long
  int64_t skipped() const { return skipped_; }  ///< of unknown label
  void keep_first(int64_t n);                   ///< keeps only the first n samples; 0: all

 private:
  std::vector<std::string> classes_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t length_;
  TokenRows rows_;
  std::vector<int64_t> targets_;
  int64_t cut_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace trireme
