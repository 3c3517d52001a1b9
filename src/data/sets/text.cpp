#include <fmt/format.h>

#include "data/catalogue.h"
#include "data/source_words.h"
#include "data/text/text_lines.h"
#include "data/text/text_sets.h"
#include "data/text/utf8.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

namespace fs = std::filesystem;

/// Returns all tokens of a file, with </s> after each line that has tokens.
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
    if (on_error == OnError::fail)
      check_utf8(line, file, "correct the line, or leave such lines out: data.on_error = \"skip\"");
    if (line.bad_byte >= 0) ++skipped;
    else lines.push_back(std::move(line.text));
  }
  const auto is_blank = [](const std::string& line) { return line.find_first_not_of(" \t") == line.npos; };
  if (std::all_of(lines.begin(), lines.end(), is_blank))
    fail_user({.where = file.string(), .what = "no words", .why = "all its lines are empty", .next = "check the file"});
  return lines;
}

/// Opens a file of sentences for each split, as one stream in which every line ends with </s>.
TaskData open_plain_text(const DataSpec& spec, const KnownSet&, const fs::path&) {
  check_file_numbers(spec, 1, "name a text file for each");
  int64_t skipped = 0;
  const std::vector<std::string> train = sound_lines(spec.train_files[0], spec.on_error, skipped);
  const std::vector<std::string> test = sound_lines(spec.test_files[0], spec.on_error, skipped);
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer(spec, train, "word");
  const std::string notes = skipped == 0 ? "" : fmt::format(", {} unreadable lines left out", with_commas(skipped));
  return stream_task(spec, stream_of(train, *tokenizer), stream_of(test, *tokenizer), tokenizer->size(),
                     spec.train_files[0].string(), notes);
}

}  // namespace

KnownSet text() {
  return {.name = "text",
          .title = "text",
          .description = "for each split any file of sentences, read as one stream",
          .task = LearningTask::language,
          .origin = DataOrigin::own_files,
          .keys = sentence_keys(),
          .read = read_sentence_keys,
          .open = open_plain_text,
          .shape = [](const DataSpec& spec) { return stream_shape(spec, 0, 0, 0); }};
}

}  // namespace trireme::sets
