#include "data/text/parallel_text.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/source_words.h"
#include "data/text/text_lines.h"
#include "trireme/error.h"

namespace trireme {
namespace {

const char* const kCorrectPair = "correct the line, or leave such pairs out: data.on_error = \"skip\"";

void check_line(const TextLine& line, const std::filesystem::path& file) {
  check_utf8(line, file, kCorrectPair);
  if (line.text.find_first_not_of(" \t") == line.text.npos)
    fail_user({.where = fmt::format("{}:{}", file.string(), line.number),
               .what = "an empty line",
               .why = "each line is a sentence and has its translation",
               .next = kCorrectPair});
}

}  // namespace

ParallelText read_parallel_text(const std::filesystem::path& source, const std::filesystem::path& target,
                                OnError on_error) {
  std::vector<TextLine> from = read_lines(source, "check the path"), to = read_lines(target, "check the path");
  if (from.size() != to.size())
    fail_user({.where = target.string(),
               .what = count_of(int64_t(to.size()), "line"),
               .why = fmt::format("{} has {}; each line must translate the same line of the other file",
                                  source.string(), from.size()),
               .next = "check that the files belong together"});
  ParallelText text;
  for (size_t i = 0; i < from.size(); ++i) {
    try {
      check_line(from[i], source);
      check_line(to[i], target);
      text.source.push_back(std::move(from[i].text));
      text.target.push_back(std::move(to[i].text));
    } catch (const Error&) {
      if (on_error == OnError::fail) throw;
      ++text.skipped;
    }
  }
  if (text.source.empty())
    fail_user({.where = source.string(),
               .what = "no pairs of sentences",
               .why = "all were left out",
               .next = "check the files"});
  return text;
}

TranslationSet::TranslationSet(ParallelText text, std::shared_ptr<const Tokenizer> source,
                               std::shared_ptr<const Tokenizer> target, int64_t length)
    : text_(std::move(text)), source_(std::move(source)), target_(std::move(target)), length_(length) {
  if (length < 2)
    fail_user({.where = "data.sequence",
               .what = std::to_string(length),
               .why = "a sentence has at least a token and an end",
               .next = "set at least 2"});
  const auto whole_source = static_cast<size_t>(length), whole_target = static_cast<size_t>(length) + 1;
  for (size_t i = 0; i < text_.source.size(); ++i) {
    std::vector<int32_t> from = source_->encode(text_.source[i]), to = target_->encode(text_.target[i]);
    from.push_back(kEndToken);
    to.insert(to.begin(), kBeginToken);
    to.push_back(kEndToken);
    if (from.size() > whole_source || to.size() > whole_target) ++cut_;
    from.resize(std::min(from.size(), whole_source));
    to.resize(std::min(to.size(), whole_target));
    source_rows_.add(from);
    target_rows_.add(to);
  }
}

PartLengths TranslationSet::parts(int64_t i) const {
  // the decoder's input has one token less than the row
  return {static_cast<int64_t>(source_rows_.row(i).size()), static_cast<int64_t>(target_rows_.row(i).size()) - 1};
}

Samples TranslationSet::get_padded(std::span<const int64_t> indices, const PartLengths& to) const {
  const auto n = static_cast<int64_t>(indices.size());
  Samples samples{at::empty({n, to.positions()}, at::kLong), at::empty({n, to.second}, at::kLong)};
  auto *data = samples.data.data_ptr<int64_t>(), *target = samples.target.data_ptr<int64_t>();
  for (const int64_t i : indices) {
    check_internal(i >= 0 && i < size(), "a sample index lies inside its dataset");
    check_internal(to.holds(parts(i)), "a sample is padded to no less than its length");
    const std::span<const int32_t> sentence = target_rows_.row(i);
    data = copy_padded(source_rows_.row(i), to.first, data);
    data = copy_padded(sentence.first(sentence.size() - 1), to.second, data);
    target = copy_padded(sentence.subspan(1), to.second, target);
  }
  return samples;
}

void TranslationSet::keep_first(int64_t n) {
  source_rows_.keep_first(n);
  target_rows_.keep_first(n);
  text_.source.resize(static_cast<size_t>(size()));
  text_.target.resize(static_cast<size_t>(size()));
}

}  // namespace trireme
