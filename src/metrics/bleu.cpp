#include "metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "data/text/split_words.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Separators of words besides ASCII's blanks: the white space of Unicode, and four control characters that Python
/// treats as white space.
constexpr std::string_view kOtherBlanks[] = {"\x1c",   "\x1d",   "\x1e",   "\x1f",   "\u0085", "\u00a0",
                                             "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                             "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
                                             "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

std::string with_plain_blanks(std::string_view sentence) {
  std::string out;
  while (!sentence.empty()) {
    const auto blank = std::find_if(std::begin(kOtherBlanks), std::end(kOtherBlanks),
                                    [&](std::string_view b) { return sentence.starts_with(b); });
    const bool is_blank = blank != std::end(kOtherBlanks);
    out += is_blank ? ' ' : sentence.front();
    sentence.remove_prefix(is_blank ? blank->size() : 1);
  }
  out.erase(out.find_last_not_of(" \t\r\n\v\f") + 1);
  return out;
}

using Counts = std::map<std::vector<std::string_view>, int64_t>;

Counts count_ngrams(const std::vector<std::string>& tokens, size_t n) {
  Counts counts;
  for (size_t i = 0; i + n <= tokens.size(); ++i)
    ++counts[{tokens.begin() + std::ptrdiff_t(i), tokens.begin() + std::ptrdiff_t(i + n)}];
  return counts;
}

void add_sentence(const std::vector<std::string>& hypothesis, const std::vector<std::string>& reference, Bleu& bleu) {
  bleu.hypothesis_tokens += int64_t(hypothesis.size());
  bleu.reference_tokens += int64_t(reference.size());
  for (size_t n = 1; n <= kBleuOrder; ++n) {
    const Counts allowed = count_ngrams(reference, n);
    for (const auto& [ngram, count] : count_ngrams(hypothesis, n)) {
      bleu.total[n - 1] += count;
      const auto it = allowed.find(ngram);
      if (it != allowed.end()) bleu.correct[n - 1] += std::min(count, it->second);
    }
  }
}

void add_score(Bleu& bleu) {
  if (bleu.hypothesis_tokens < bleu.reference_tokens)
    bleu.brevity_penalty =
        bleu.hypothesis_tokens == 0 ? 0 : std::exp(1 - double(bleu.reference_tokens) / double(bleu.hypothesis_tokens));
  if (std::all_of(bleu.correct.begin(), bleu.correct.end(), [](int64_t n) { return n == 0; })) return;
  double smoothing = 1, log_sum = 0;
  for (size_t n = 0; n < kBleuOrder; ++n) {
    if (bleu.total[n] == 0) return;
    const bool none = bleu.correct[n] == 0;
    if (none) smoothing *= 2;
    bleu.precisions[n] = 100 * (none ? 1 / smoothing : double(bleu.correct[n])) / double(bleu.total[n]);
    log_sum += std::log(bleu.precisions[n]);
  }
  bleu.score = bleu.brevity_penalty * std::exp(log_sum / kBleuOrder);
}

}  // namespace

std::vector<std::string> bleu_tokens(std::string_view sentence) { return split_13a(with_plain_blanks(sentence)); }

Bleu corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  check_internal(hypotheses.size() == references.size(), "every hypothesis has one reference");
  Bleu bleu;
  for (size_t i = 0; i < hypotheses.size(); ++i)
    add_sentence(bleu_tokens(hypotheses[i]), bleu_tokens(references[i]), bleu);
  add_score(bleu);
  return bleu;
}

}  // namespace trireme
