#include "data/open_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/labelled_text.h"
#include "data/parallel_text.h"
#include "data/source_words.h"
#include "data/text_lines.h"
#include "data/text_stream.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTokenizers{"word", "13a", "character", "sentencepiece", "sentencepiece-bpe"};

bool is_pieces(const std::string& tokenizer) { return tokenizer.starts_with("sentencepiece"); }

/// What the spec asks for, else `standard`, learned from the sentences.
std::shared_ptr<const Tokenizer> make_tokenizer(const DataSpec& spec, const std::vector<std::string>& sentences,
                                                const std::string& standard) {
  const TextSpec& text = spec.text;
  if (text.model) return load_sentencepiece(*text.model);
  const std::string& kind = text.tokenizer.empty() ? standard : text.tokenizer;
  if (is_pieces(kind))
    return train_sentencepiece(sentences,
                               {.size = text.vocabulary > 0 ? text.vocabulary : kDefaultPieces,
                                .kind = kind == "sentencepiece" ? "unigram" : "bpe", .lower = text.lower},
                               cache_folder() / "sentencepiece");
  const TokenUnit unit = kind == "word" ? TokenUnit::word : kind == "13a" ? TokenUnit::punctuated_word : TokenUnit::character;
  return count_vocabulary(sentences, {.unit = unit, .max_size = text.vocabulary, .min_count = text.min_count, .lower = text.lower});
}

std::string counted(int64_t n, const char* what) { return n == 0 ? "" : fmt::format(", {} {}", with_commas(n), what); }

/// Limits the sets and says in words what they are.
template <class Set>
TaskData make_task(const DataSpec& spec, std::shared_ptr<Set> train, std::shared_ptr<Set> test, const std::string& title,
                   const std::string& notes, const char* unit) {
  const int64_t whole_train = train->size(), whole_test = test->size();
  train->keep_first(spec.train_limit);
  test->keep_first(spec.test_limit);
  TaskData task;
  task.source = title + used_part(train->size(), whole_train, test->size(), whole_test, unit) + notes;
  task.train = std::move(train);
  task.test = std::move(test);
  return task;
}

TaskData open_sentences(const DataSpec& spec, const fs::path& train_file, const fs::path& test_file, const std::string& title) {
  const LabelledText train = read_labelled_text(train_file, spec.on_error), test = read_labelled_text(test_file, spec.on_error);
  const std::set<std::string> labels(train.labels.begin(), train.labels.end());
  const std::vector<std::string> classes(labels.begin(), labels.end());
  if (classes.size() < 2)
    fail_user({.where = train_file.string(), .what = fmt::format("one label, \"{}\"", classes[0]),
               .why = "a classification tells at least two apart", .next = "check the file"});
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer(spec, train.sentences, "word");
  const int64_t length = spec.sequence > 0 ? spec.sequence : kDefaultSentence;
  auto learned = std::make_shared<SentenceSet>(train, classes, tokenizer, length, train_file.string(), spec.on_error);
  auto tested = std::make_shared<SentenceSet>(test, classes, tokenizer, length, test_file.string(), spec.on_error);
  const std::string notes = counted(learned->cut() + tested->cut(), "longer sentences cut") +
                            counted(train.skipped + test.skipped + tested->skipped(), "unreadable lines left out");
  return make_task(spec, std::move(learned), std::move(tested),
                   fmt::format("{}, {} different tokens, sentences of {}, {} classes", title, with_commas(tokenizer->size()), length,
                               classes.size()),
                   notes, "sentences");
}

TaskData open_pairs(const DataSpec& spec, const std::vector<fs::path>& train_files, const std::vector<fs::path>& test_files,
                    const std::string& title) {
  ParallelText train = read_parallel_text(train_files[0], train_files[1], spec.on_error);
  ParallelText test = read_parallel_text(test_files[0], test_files[1], spec.on_error);
  std::shared_ptr<const Tokenizer> source, target;
  if (spec.text.joint) {
    std::vector<std::string> both = train.source;
    both.insert(both.end(), train.target.begin(), train.target.end());
    source = target = make_tokenizer(spec, both, "sentencepiece");
  } else {
    source = make_tokenizer(spec, train.source, "sentencepiece");
    target = make_tokenizer(spec, train.target, "sentencepiece");
  }
  const int64_t length = spec.sequence > 0 ? spec.sequence : kDefaultTranslation, skipped = train.skipped + test.skipped;
  auto learned = std::make_shared<TranslationSet>(std::move(train), source, target, length);
  auto tested = std::make_shared<TranslationSet>(std::move(test), source, target, length);
  std::string sizes = with_commas(source->size());
  if (!spec.text.joint) sizes += " and " + with_commas(target->size());
  const std::string notes = counted(learned->cut() + tested->cut(), "longer pairs cut") + counted(skipped, "unreadable pairs left out");
  return make_task(spec, std::move(learned), std::move(tested),
                   fmt::format("{}, {} different tokens, pairs of sentences of {}", title, sizes, length), notes, "pairs");
}

void check_files(const DataSpec& spec, size_t each, const char* next) {
  if (spec.train_files.size() == each && spec.test_files.size() == each) return;
  fail_user({.where = "data.train", .what = fmt::format("{} training and {} test files", spec.train_files.size(), spec.test_files.size()),
             .why = fmt::format("data set \"{}\" takes {} of each", spec.name, each), .next = next});
}

/// All tokens of a file, with </s> after each line that has any.
std::vector<int32_t> stream_of(const std::vector<std::string>& lines, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const std::string& line : lines) {
    const std::vector<int32_t> sentence = tokenizer.encode(line);
    tokens.insert(tokens.end(), sentence.begin(), sentence.end());
    if (!sentence.empty()) tokens.push_back(kEndToken);
  }
  return tokens;
}

std::vector<std::string> sound_lines(const fs::path& file, OnError on_error, int64_t& skipped) {
  std::vector<std::string> lines;
  for (TextLine& line : read_lines(file, "check the path")) {
    if (on_error == OnError::fail) check_utf8(line, file, "correct the line, or leave such lines out: data.on_error = \"skip\"");
    if (line.bad_byte >= 0) ++skipped;
    else lines.push_back(std::move(line.text));
  }
  const auto is_blank = [](const std::string& line) { return line.find_first_not_of(" \t") == line.npos; };
  if (std::all_of(lines.begin(), lines.end(), is_blank))
    fail_user({.where = file.string(), .what = "no words", .why = "there is nothing but empty lines", .next = "check the file"});
  return lines;
}

}  // namespace

bool takes_tokenizer(const std::string& name) {
  return name == "sst2" || name == "multi30k" || name == "labelled-text" || name == "parallel-text" || name == "text";
}

TaskData open_text_set(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const std::string title = fmt::format("{}, {}", set.title, folder.string());
  if (spec.name == "sst2") return open_sentences(spec, folder / "train.tsv", folder / "test.tsv", title);
  const auto files = [&](const char* split) {
    return std::vector<fs::path>{folder / fmt::format("{}.{}.gz", split, spec.text.source),
                                 folder / fmt::format("{}.{}.gz", split, spec.text.target)};
  };
  return open_pairs(spec, files("train"), files("test_2016_flickr"),
                    fmt::format("{}, {} to {}", title, spec.text.source, spec.text.target));
}

TaskData open_labelled_text(const DataSpec& spec) {
  check_files(spec, 1, "name a file of lines \"label<tab>sentence\" for each");
  return open_sentences(spec, spec.train_files[0], spec.test_files[0], spec.train_files[0].string());
}

TaskData open_parallel_text(const DataSpec& spec) {
  check_files(spec, 2, "name the source's file, then the target's: train = [\"train.en.gz\", \"train.de.gz\"]");
  return open_pairs(spec, spec.train_files, spec.test_files, spec.train_files[0].string());
}

TaskData open_plain_text(const DataSpec& spec) {
  check_files(spec, 1, "name a text file for each");
  int64_t skipped = 0;
  const std::vector<std::string> train = sound_lines(spec.train_files[0], spec.on_error, skipped);
  const std::vector<std::string> test = sound_lines(spec.test_files[0], spec.on_error, skipped);
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer(spec, train, "word");
  const int64_t window = spec.sequence > 0 ? spec.sequence : kDefaultSequence;
  auto learned = std::make_shared<TextStream>(stream_of(train, *tokenizer), tokenizer->size(), window);
  auto tested = std::make_shared<TextStream>(stream_of(test, *tokenizer), tokenizer->size(), window);
  return make_task(spec, std::move(learned), std::move(tested),
                   fmt::format("{}, {} different tokens, sequences of {}", spec.train_files[0].string(), with_commas(tokenizer->size()),
                               window),
                   counted(skipped, "unreadable lines left out"), "sequences");
}

void check_text_spec(const DataSpec& spec) {
  const TextSpec& text = spec.text;
  const TextSpec none;
  if (!takes_tokenizer(spec.name)) {
    if (text.tokenizer != none.tokenizer || text.model || text.vocabulary != 0)
      fail_user({.where = "data.tokenizer", .what = text.model ? text.model->string() : text.tokenizer,
                 .why = spec.name + " has no vocabulary to choose", .next = "leave tokenizer, vocabulary and model out"});
    return;
  }
  if (!text.tokenizer.empty() && std::find(kTokenizers.begin(), kTokenizers.end(), text.tokenizer) == kTokenizers.end())
    fail_user({.where = "data.tokenizer", .what = "\"" + text.tokenizer + "\"", .why = "no tokenizer has this name",
               .next = "choose one of " + join(kTokenizers)});
  if (text.model && !text.tokenizer.empty() && !is_pieces(text.tokenizer))
    fail_user({.where = "data.model", .what = text.model->string(),
               .why = "it is a SentencePiece model, and the tokenizer is " + text.tokenizer, .next = "leave one of the two out"});
  for (auto [key, value] : {std::pair{"data.vocabulary", text.vocabulary}, {"data.min_count", text.min_count}})
    if (value < 0) fail_user({.where = key, .what = std::to_string(value), .why = "it is a number of tokens", .next = "0 sets no limit"});
}

}  // namespace trireme
