// BLEU, the usual score of translations (Papineni et al., "BLEU: a method for automatic evaluation of machine
// translation", 2002), counted as sacrebleu does by default, so that numbers compare with published ones (Post, "A call
// for clarity in reporting BLEU scores", 2018): tokenizer 13a, case kept, n-grams up to 4, one reference, exponential
// smoothing (Chen and Cherry, 2014, method 3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

constexpr int kBleuOrder = 4;  ///< longest n-grams

/// Over a whole corpus. Index n - 1 is of n-grams.
struct Bleu {
  std::array<int64_t, kBleuOrder>
      correct{};  ///< n-grams of the hypotheses that are in their reference, each as often as it is there
  std::array<int64_t, kBleuOrder> total{};  ///< n-grams of the hypotheses
  std::array<double, kBleuOrder>
      precisions{};            ///< percent; smoothed: the i-th order without a correct n-gram has 100 / (2^i total)
  double brevity_penalty = 1;  ///< exp(1 - reference tokens / hypothesis tokens) where the hypotheses are shorter
  int64_t hypothesis_tokens = 0, reference_tokens = 0;
  double score = 0;  ///< 0 to 100: penalty times the geometric mean of the precisions
};

/// Hypothesis i against reference i. Any UTF-8; equal numbers of both. Nothing correct, or no n-gram of some order at
/// all: score 0.
Bleu corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references);

/// The tokens that are compared: split_13a, blanks beyond ASCII's included.
std::vector<std::string> bleu_tokens(std::string_view sentence);

}  // namespace trireme
