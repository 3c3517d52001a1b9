#include "data/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "data/text/split_words.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Counts = std::unordered_map<std::string, int64_t>;

class CountedTokenizer final : public Tokenizer {
 public:
  /// `texts`: the texts of the ids from kSpecialTokens on.
  CountedTokenizer(std::vector<std::string> texts, const CountedVocabulary& options)
      : options_(options), texts_(std::move(texts)) {
    for (size_t i = 0; i < texts_.size(); ++i) ids_.emplace(texts_[i], static_cast<int32_t>(i) + kSpecialTokens);
  }

  int64_t size() const override { return static_cast<int64_t>(texts_.size()) + kSpecialTokens; }

  std::vector<int32_t> encode(std::string_view sentence) const override {
    std::vector<int32_t> ids;
    for_each_unit(sentence, options_, [&](const std::string& unit) {
      const auto found = ids_.find(unit);
      ids.push_back(found == ids_.end() ? kUnknownToken : found->second);
    });
    return ids;
  }

  template <class Visit>
  static void for_each_unit(std::string_view sentence, const CountedVocabulary& options, Visit visit) {
    const std::string lower = options.lower ? to_lower(sentence) : "";
    if (options.lower) sentence = lower;
    if (options.unit == TokenUnit::word) {
      for (const std::string_view word : split_blanks(sentence)) visit(std::string(word));
    } else if (options.unit == TokenUnit::punctuated_word) {
      for (const std::string& word : split_13a(sentence)) visit(word);
    } else {
      for (size_t at = 0; at < sentence.size();) {
        const size_t begin = at;
        next_code_point(sentence, at);
        visit(std::string(sentence.substr(begin, at - begin)));
      }
    }
  }

 private:
  std::string join(const std::vector<int32_t>& ids) const override {
    std::string sentence;
    for (const int32_t id : ids) {
      if (options_.unit != TokenUnit::character && !sentence.empty()) sentence += ' ';
      sentence += id == kUnknownToken ? "<unk>" : texts_[static_cast<size_t>(id - kSpecialTokens)];
    }
    return sentence;
  }

  CountedVocabulary options_;
  std::vector<std::string> texts_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::vector<int32_t> text;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size())
      fail_user({.where = "token",
                 .what = std::to_string(id),
                 .why = fmt::format("the vocabulary has ids 0 to {}", size() - 1),
                 .next = "decode with the vocabulary that encoded the text"});
    if (id == kEndToken) break;
    if (id != kPadding && id != kBeginToken) text.push_back(static_cast<int32_t>(id));
  }
  return join(text);
}

void check_room_for_text(int64_t size) {
  if (size > kSpecialTokens) return;
  fail_user({.where = "data.vocabulary",
             .what = std::to_string(size),
             .why = fmt::format("{} ids are special ones: padding, unknown, begin and end", kSpecialTokens),
             .next = "set a larger number, or leave it out"});
}

std::unique_ptr<Tokenizer> count_vocabulary(std::span<const std::string> sentences, const CountedVocabulary& options) {
  if (options.max_size != 0) check_room_for_text(options.max_size);
  Counts counts;
  for (const std::string& sentence : sentences)
    CountedTokenizer::for_each_unit(sentence, options, [&](const std::string& unit) { ++counts[unit]; });
  std::vector<std::pair<std::string, int64_t>> sorted;
  for (auto& [unit, count] : counts)
    if (count >= options.min_count) sorted.emplace_back(unit, count);
  if (sorted.empty())
    fail_user({.where = "data",
               .what = "no tokens",
               .why = fmt::format("nothing occurs {} times in the training text", options.min_count),
               .next = "check the text, or lower min_count"});
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (options.max_size > 0)
    sorted.resize(std::min(sorted.size(), static_cast<size_t>(options.max_size - kSpecialTokens)));
  std::vector<std::string> texts;
  for (auto& entry : sorted) texts.push_back(std::move(entry.first));
  return std::make_unique<CountedTokenizer>(std::move(texts), options);
}

}  // namespace trireme
