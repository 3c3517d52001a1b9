#include "data/text/text_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "data/catalogue.h"
#include "data/search_folders.h"
#include "data/source_words.h"
#include "data/task_data.h"
#include "data/text/labelled_text.h"
#include "data/text/parallel_text.h"
#include "data/text/text_stream.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kTokenizers{"word", "13a", "character", "sentencepiece", "sentencepiece-bpe"};

bool is_pieces(const std::string& tokenizer) { return tokenizer.starts_with("sentencepiece"); }

/// Returns the size of the vocabulary that make_tokenizer would make, special tokens included; 0: it depends on the
/// text. `words`: different words of the text, without special tokens; 0: not known.
int64_t size_of_vocabulary(const TextSpec& text, const std::string& standard, int64_t words) {
  const std::string& kind = text.tokenizer.empty() ? standard : text.tokenizer;
  if (text.model) return 0;
  if (is_pieces(kind)) return text.vocabulary > 0 ? text.vocabulary : kDefaultPieces;
  if (kind != "word" || text.lower || text.min_count > 1 || words == 0) return 0;
  const int64_t all = words + kSpecialTokens;
  return text.vocabulary > 0 ? std::min(text.vocabulary, all) : all;
}

void lower_all(ParallelText& text) {
  for (std::string& sentence : text.source) sentence = to_lower(sentence);
  for (std::string& sentence : text.target) sentence = to_lower(sentence);
}

/// Errors (user): keys that the tokenizer does not use.
void refuse_idle_keys(const TextSpec& text, const std::string& kind) {
  const TextSpec none;
  const std::pair<const char*, bool> set[] = {{"min_count", text.min_count > none.min_count},
                                              {"vocabulary", text.vocabulary != none.vocabulary},
                                              {"lower", text.lower}};
  for (const auto& [key, is_set] : set) {
    if (!is_set) continue;
    if (text.model)
      fail_user({.where = fmt::format("data.{}", key),
                 .what = "is set together with data.model",
                 .why = text.model->string() + " is used as it is",
                 .next = "leave one of the two out"});
    if (is_pieces(kind) && std::string_view(key) == "min_count")
      fail_user({.where = "data.min_count",
                 .what = std::to_string(text.min_count),
                 .why = "SentencePiece chooses its pieces by data.vocabulary, not by how often they occur",
                 .next = "leave it out, or choose another data.tokenizer"});
  }
}

std::string counted(int64_t n, const char* what) { return n == 0 ? "" : fmt::format(", {} {}", with_commas(n), what); }

}  // namespace

const std::vector<std::string>& sentence_keys() {
  static const std::vector<std::string> keys{"sequence", "vocabulary", "tokenizer", "min_count",
                                             "lower",    "model",      "joint",     "on_error"};
  return keys;
}

void read_sentence_keys(const ConfigTable& table, const fs::path& folder, DataSpec& spec) {
  TextSpec& text = spec.text;
  text.tokenizer = table.get_string("tokenizer", text.tokenizer);
  text.vocabulary = table.get_int("vocabulary", text.vocabulary, 0);
  text.min_count = table.get_int("min_count", text.min_count, 0);
  text.lower = table.get_bool("lower", text.lower);
  text.joint = table.get_bool("joint", text.joint);
  if (table.has("model")) text.model = folder / table.require_string("model");
}

std::shared_ptr<const Tokenizer> make_tokenizer(const DataSpec& spec, const std::vector<std::string>& sentences,
                                                const std::string& standard) {
  const TextSpec& text = spec.text;
  if (text.model) return load_sentencepiece(*text.model);
  const std::string& kind = text.tokenizer.empty() ? standard : text.tokenizer;
  if (is_pieces(kind))
    return train_sentencepiece(sentences,
                               {.size = text.vocabulary > 0 ? text.vocabulary : kDefaultPieces,
                                .kind = kind == "sentencepiece" ? "unigram" : "bpe",
                                .lower = text.lower},
                               cache_folder() / "sentencepiece");
  const TokenUnit unit = kind == "word"  ? TokenUnit::word
                         : kind == "13a" ? TokenUnit::punctuated_word
                                         : TokenUnit::character;
  return count_vocabulary(
      sentences, {.unit = unit, .max_size = text.vocabulary, .min_count = text.min_count, .lower = text.lower});
}

TaskData stream_task(const DataSpec& spec, std::vector<int32_t> train_tokens, std::vector<int32_t> test_tokens,
                     int64_t vocabulary, const std::string& title, const std::string& notes) {
  const int64_t window = spec.sequence > 0 ? spec.sequence : kDefaultSequence;
  return limited_task(spec,
                      std::make_shared<TextStream>(std::move(train_tokens), vocabulary, window, "the training text"),
                      std::make_shared<TextStream>(std::move(test_tokens), vocabulary, window, "the test text"),
                      fmt::format("{}, {} different tokens, sequences of {}", title, with_commas(vocabulary), window),
                      "sequences", notes);
}

SetShape stream_shape(const DataSpec& spec, int64_t train, int64_t test, int64_t vocabulary) {
  const int64_t window = spec.sequence > 0 ? spec.sequence : kDefaultSequence;
  const auto samples = [&](int64_t tokens) { return tokens > 0 ? (tokens - 1) / window : 0; };
  return {.task = LearningTask::language,
          .sample = {window},
          .target = {window},
          .classes = vocabulary,
          .vocabulary = vocabulary,
          .train = samples(train),
          .test = samples(test),
          .tokens = true,
          .is_stream = true};
}

SetShape sentences_shape(const DataSpec& spec, int64_t train, int64_t test, int64_t classes, int64_t words) {
  const int64_t length = spec.sequence > 0 ? spec.sequence : kDefaultSentence;
  return {.task = LearningTask::classification,
          .sample = {length},
          .classes = classes,
          .vocabulary = size_of_vocabulary(spec.text, "word", words),
          .train = train,
          .test = test,
          .padded = {length, 0},
          .tokens = true};
}

SetShape pairs_shape(const DataSpec& spec, int64_t train, int64_t test) {
  const int64_t length = spec.sequence > 0 ? spec.sequence : kDefaultTranslation;
  const int64_t vocabulary = size_of_vocabulary(spec.text, "sentencepiece", 0);
  return {.task = LearningTask::translation,
          .sample = {2 * length},
          .target = {length},
          .classes = vocabulary,
          .vocabulary = vocabulary,
          .train = train,
          .test = test,
          .padded = {length, length},
          .tokens = true};
}

TaskData open_sentences(const DataSpec& spec, const fs::path& train_file, const fs::path& test_file,
                        const std::string& title) {
  const LabelledText train = read_labelled_text(train_file, spec.on_error),
                     test = read_labelled_text(test_file, spec.on_error);
  const std::set<std::string> labels(train.labels.begin(), train.labels.end());
  const std::vector<std::string> classes(labels.begin(), labels.end());
  if (classes.size() < 2)
    fail_user({.where = train_file.string(),
               .what = fmt::format("one label, \"{}\"", classes[0]),
               .why = "classification needs at least two labels",
               .next = "check the file"});
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer(spec, train.sentences, "word");
  const int64_t length = spec.sequence > 0 ? spec.sequence : kDefaultSentence;
  auto learned = std::make_shared<SentenceSet>(train, classes, tokenizer, length, train_file.string(), spec.on_error);
  auto tested = std::make_shared<SentenceSet>(test, classes, tokenizer, length, test_file.string(), spec.on_error);
  const std::string notes = counted(learned->cut() + tested->cut(), "longer sentences cut") +
                            counted(train.skipped + test.skipped + tested->skipped(), "unreadable lines left out");
  return limited_task(spec, std::move(learned), std::move(tested),
                      fmt::format("{}, {} different tokens, sentences of {}, {} classes", title,
                                  with_commas(tokenizer->size()), length, classes.size()),
                      "sentences", notes);
}

TaskData open_pairs(const DataSpec& spec, const std::vector<fs::path>& train_files,
                    const std::vector<fs::path>& test_files, const std::string& title) {
  ParallelText train = read_parallel_text(train_files[0], train_files[1], spec.on_error);
  ParallelText test = read_parallel_text(test_files[0], test_files[1], spec.on_error);
  DataSpec as_is = spec;
  if (spec.text.lower) {
    // not left to the tokenizers: BLEU compares a model's translations with these lines, so they must be in lower case
    // too
    for (ParallelText* text : {&train, &test}) lower_all(*text);
    as_is.text.lower = false;
  }
  std::shared_ptr<const Tokenizer> source, target;
  if (spec.text.joint) {
    std::vector<std::string> both = train.source;
    both.insert(both.end(), train.target.begin(), train.target.end());
    source = target = make_tokenizer(as_is, both, "sentencepiece");
  } else {
    source = make_tokenizer(as_is, train.source, "sentencepiece");
    target = make_tokenizer(as_is, train.target, "sentencepiece");
  }
  const int64_t length = spec.sequence > 0 ? spec.sequence : kDefaultTranslation,
                skipped = train.skipped + test.skipped;
  auto learned = std::make_shared<TranslationSet>(std::move(train), source, target, length);
  auto tested = std::make_shared<TranslationSet>(std::move(test), source, target, length);
  std::string sizes = with_commas(source->size());
  if (!spec.text.joint) sizes += " and " + with_commas(target->size());
  const std::string notes =
      counted(learned->cut() + tested->cut(), "longer pairs cut") + counted(skipped, "unreadable pairs left out");
  return limited_task(spec, std::move(learned), std::move(tested),
                      fmt::format("{}, {} different tokens, pairs of sentences of {}", title, sizes, length), "pairs",
                      notes);
}

void check_file_numbers(const DataSpec& spec, size_t each, const char* next) {
  if (spec.train_files.size() == each && spec.test_files.size() == each) return;
  fail_user({.where = "data.train",
             .what = fmt::format("{} training and {} test files", spec.train_files.size(), spec.test_files.size()),
             .why = fmt::format("data set \"{}\" takes {} of each", spec.name, each),
             .next = next});
}

void check_text_spec(const DataSpec& spec) {
  const TextSpec& text = spec.text;
  const TextSpec none;
  const KnownSet& set = known_set(spec.name);
  if (!set.takes("tokenizer")) {
    if (text.tokenizer != none.tokenizer || text.model || text.vocabulary != 0)
      fail_user({.where = "data.tokenizer",
                 .what = text.model ? text.model->string() : text.tokenizer,
                 .why = spec.name + " has no vocabulary to choose",
                 .next = "leave tokenizer, vocabulary and model out"});
    return;
  }
  if (!text.tokenizer.empty() && std::find(kTokenizers.begin(), kTokenizers.end(), text.tokenizer) == kTokenizers.end())
    fail_user({.where = "data.tokenizer",
               .what = "\"" + text.tokenizer + "\"",
               .why = "no tokenizer has this name",
               .next = "choose one of " + join(kTokenizers)});
  if (text.model && !text.tokenizer.empty() && !is_pieces(text.tokenizer))
    fail_user({.where = "data.model",
               .what = text.model->string(),
               .why = "it is a SentencePiece model, and the tokenizer is " + text.tokenizer,
               .next = "leave one of the two out"});
  for (auto [key, value] : {std::pair{"data.vocabulary", text.vocabulary}, {"data.min_count", text.min_count}})
    if (value < 0)
      fail_user(
          {.where = key, .what = std::to_string(value), .why = "it is a number of tokens", .next = "0 sets no limit"});
  const char* const standard = set.task == LearningTask::translation ? "sentencepiece" : "word";
  refuse_idle_keys(text, text.tokenizer.empty() ? standard : text.tokenizer);
}

}  // namespace trireme
