#include "data/text/labelled_text.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "data/text/text_lines.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kFrame = 2;  // <s> and </s>
const char* const kCorrectLine = "correct the line, or leave such lines out: data.on_error = \"skip\"";

[[noreturn]] void fail_line(const std::filesystem::path& file, const TextLine& line, size_t column, std::string what) {
  fail_user({.where = fmt::format("{}:{}:{}", file.string(), line.number, column + 1),
             .what = std::move(what),
             .why = "a line is a label, a tab and a sentence",
             .next = kCorrectLine});
}

/// Returns the label without the blanks around it.
std::string trimmed(std::string_view label) {
  const size_t first = label.find_first_not_of(' '), last = label.find_last_not_of(' ');
  return std::string(label.substr(first, last - first + 1));
}

/// Returns the position of the line's tab. User errors: see read_labelled_text.
size_t find_tab(const std::filesystem::path& file, const TextLine& line) {
  check_utf8(line, file, kCorrectLine);
  const std::string& text = line.text;
  const size_t tab = text.find('\t');
  if (tab == text.npos) fail_line(file, line, text.size(), "no tab");
  if (text.find_first_not_of(' ') == tab) fail_line(file, line, 0, "no label");
  if (const size_t second = text.find('\t', tab + 1); second != text.npos)
    fail_line(file, line, second, "a second tab");
  if (text.find_first_not_of(' ', tab + 1) == text.npos) fail_line(file, line, tab + 1, "no sentence");
  return tab;
}

}  // namespace

LabelledText read_labelled_text(const std::filesystem::path& file, OnError on_error) {
  LabelledText text;
  for (const TextLine& line : read_lines(file, "check the path")) {
    if (line.text.empty()) continue;
    try {
      const size_t tab = find_tab(file, line);
      text.labels.push_back(trimmed(std::string_view(line.text).substr(0, tab)));
      text.sentences.push_back(line.text.substr(tab + 1));
      text.lines.push_back(line.number);
    } catch (const Error&) {
      if (on_error == OnError::fail) throw;
      ++text.skipped;
    }
  }
  if (text.labels.empty())
    fail_user({.where = file.string(),
               .what = "no lines",
               .why = "no line has the form label, tab, sentence",
               .next = "check the file"});
  return text;
}

SentenceSet::SentenceSet(const LabelledText& text, const std::vector<std::string>& classes,
                         std::shared_ptr<const Tokenizer> tokenizer, int64_t length, const std::string& name,
                         OnError on_error)
    : classes_(classes), tokenizer_(std::move(tokenizer)), length_(length) {
  if (length <= kFrame)
    fail_user({.where = "data.sequence",
               .what = std::to_string(length),
               .why = "a sentence has a begin, an end, and at least one token between them",
               .next = "set at least 3"});
  for (size_t i = 0; i < text.labels.size(); ++i) {
    const auto place = std::find(classes.begin(), classes.end(), text.labels[i]);
    if (place == classes.end() && on_error == OnError::skip) {
      ++skipped_;
      continue;
    }
    if (place == classes.end())
      fail_user({.where = fmt::format("{}:{}", name, text.lines[i]),
                 .what = fmt::format("label \"{}\"", text.labels[i]),
                 .why = fmt::format("the labels are {}", fmt::join(classes, ", ")),
                 .next = kCorrectLine});
    std::vector<int32_t> tokens = tokenizer_->encode(text.sentences[i]);
    if (static_cast<int64_t>(tokens.size()) > length - kFrame) {
      tokens.resize(static_cast<size_t>(length - kFrame));
      ++cut_;
    }
    tokens.insert(tokens.begin(), kBeginToken);
    tokens.push_back(kEndToken);
    rows_.add(tokens);
    targets_.push_back(place - classes.begin());
  }
  if (targets_.empty())
    fail_user({.where = name, .what = "no samples", .why = "no label is known", .next = "check the labels"});
}

Samples SentenceSet::get_padded(std::span<const int64_t> indices, const PartLengths& to) const {
  const auto n = static_cast<int64_t>(indices.size());
  Samples samples{at::empty({n, to.first}, at::kLong), at::empty({n}, at::kLong)};
  auto *data = samples.data.data_ptr<int64_t>(), *target = samples.target.data_ptr<int64_t>();
  for (const int64_t i : indices) {
    check_internal(i >= 0 && i < size(), "a sample index lies inside its dataset");
    check_internal(to.holds(parts(i)), "a sample is padded to no less than its length");
    data = copy_padded(rows_.row(i), to.first, data);
    *target++ = targets_[static_cast<size_t>(i)];
  }
  return samples;
}

void SentenceSet::keep_first(int64_t n) {
  rows_.keep_first(n);
  targets_.resize(static_cast<size_t>(rows_.count()));
}

}  // namespace trireme
