// Sentences chosen token by token from a model that says how likely each next token is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace trireme {

struct BeamOptions {
  int64_t beam = 1;  ///< unfinished sentences kept at a time; 1: greedy, always the likeliest token
  /// alpha of Wu et al., "Google's neural machine translation system", 2016, equation 14: a sentence of n tokens (its
  /// end counted) has score log(probability) / ((5 + n) / 6)^alpha. 0: no correction, which favours short sentences.
  double length_penalty = 0.6;
  int64_t begin = 0, end = 0;  ///< tokens
  int64_t longest = 0;         ///< tokens of a sentence without its begin; one that has not ended by then is cut
};

/// Log-probabilities, double [rows, vocabulary], of the token that follows each of `prefixes`, int64 [rows, t], which
/// begin with `begin`. Rows r * beam .. (r + 1) * beam - 1 belong to sentence r, in every call.
using NextToken = std::function<at::Tensor(const at::Tensor& prefixes)>;

/// For each of `sentences` the tokens of the finished one with the highest score, without begin and end. At each step
/// the `beam` likeliest unfinished sentences are kept; one whose end is among the `beam` likeliest continuations is
/// finished. Ends when `beam` sentences are finished, when no unfinished one can overtake the best of them, or at the
/// longest length.
std::vector<std::vector<int64_t>> beam_search(int64_t sentences, const NextToken& next, const BeamOptions& options);

}  // namespace trireme
