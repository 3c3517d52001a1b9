#include "data/text/split_words.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

/// True for all ASCII punctuation except ' , - and .
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= '!' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string set_symbols_apart(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_symbol(c)) out += {' ', c, ' '};
    else out += c;
  }
  return out;
}

/// Rewrites each pair of neighbours for which `matches` is true, from left to right and without overlap, as: before,
/// first, blank, second, after.
template <class Matches>
std::string rewrite_pairs(std::string_view text, Matches matches, std::string_view before, std::string_view after) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      out += text[i];
      continue;
    }
    out.append(before).append({text[i], ' ', text[i + 1]}).append(after);
    ++i;
  }
  return out;
}

}  // namespace

std::vector<std::string_view> split_blanks(std::string_view sentence) {
  std::vector<std::string_view> words;
  for (size_t at = sentence.find_first_not_of(kBlanks); at != sentence.npos;) {
    const size_t end = std::min(sentence.find_first_of(kBlanks, at), sentence.size());
    words.push_back(sentence.substr(at, end - at));
    at = sentence.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::vector<std::string> split_13a(std::string_view sentence) {
  std::string text(sentence);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  for (const auto& [entity, character] :
       {std::pair<std::string_view, std::string_view>{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(text, entity, character);
  text = set_symbols_apart(" " + text + " ");
  text = rewrite_pairs(
      text, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ");
  text = rewrite_pairs(
      text, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", "");
  text = rewrite_pairs(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ");
  const auto words = split_blanks(text);
  return {words.begin(), words.end()};
}

}  // namespace trireme
