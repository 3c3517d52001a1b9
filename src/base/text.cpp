#include "base/text.h"

#include <algorithm>

namespace trireme {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before_last, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = int(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last = std::move(last);
    last = row;
    row[0] = int(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitute});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string closest_match(std::string_view word, const std::vector<std::string>& candidates) {
  // a third of the characters may be wrong; beyond that a suggestion only distracts
  int best = std::max(1, int(word.size()) / 3) + 1;
  std::string match;
  for (const std::string& candidate : candidates) {
    int distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      match = candidate;
    }
  }
  return match;
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (&word != &words.front()) text += separator;
    text += word;
  }
  return text;
}

std::string join_with_and(const std::vector<std::string>& words) {
  if (words.size() < 2) return join(words);
  return join({words.begin(), words.end() - 1}) + " and " + words.back();
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string first_line(const std::exception& error) {
  std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace trireme
