// BLEU, the usual score of translations (Papineni et al., "BLEU: a method for automatic evaluation of machine
// translation", 2002). It is computed with sacrebleu's defaults, so that values are comparable with published ones
// (Post, "A call for clarity in reporting BLEU scores", 2018): tokenizer 13a, case-sensitive, n-grams up to 4, one
// reference, exponential smoothing (Chen and Cherry, 2014, method 3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

constexpr int kBleuOrder = 4;  ///< order of the longest n-grams

/// The score of a whole corpus. Index n - 1 is for n-grams.
struct Bleu {
  /// n-grams of the hypotheses that are in their reference, each counted at most as often as it occurs there.
  std::array<int64_t, kBleuOrder> correct{};
  std::array<int64_t, kBleuOrder> total{};  ///< number of n-grams in the hypotheses
  /// Percent. Smoothed: the i-th order without a correct n-gram has 100 / (2^i total).
  std::array<double, kBleuOrder> precisions{};
  double brevity_penalty = 1;  ///< exp(1 - reference tokens / hypothesis tokens) if the hypotheses are shorter
  int64_t hypothesis_tokens = 0, reference_tokens = 0;
  double score = 0;  ///< 0 to 100: the penalty times the geometric mean of the precisions
};

/// Compares hypothesis i with reference i. Both lists have the same length; texts are any UTF-8. The score is 0 if
/// nothing is correct, or if some order has no n-gram.
Bleu corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references);

/// Returns the tokens that are compared: those of split_13a, with all blanks of Unicode as separators.
std::vector<std::string> bleu_tokens(std::string_view sentence);

}  // namespace trireme
