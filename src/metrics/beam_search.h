// Beam search: builds sentences token by token from a model that returns the probability of each next token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace trireme {

struct BeamOptions {
  int64_t beam = 1;  ///< number of unfinished sentences kept at a time; 1: greedy search
  /// alpha of Wu et al., "Google's neural machine translation system", 2016, equation 14: a sentence of n tokens
  /// (including its end) has the score log(probability) / ((5 + n) / 6)^alpha. 0: no correction, which favours short
  /// sentences.
  double length_penalty = 0.6;
  int64_t begin = 0, end = 0;  ///< token ids
  int64_t longest = 0;         ///< maximum number of tokens of a sentence without its begin; a longer sentence is cut
};

/// Returns log-probabilities, double [rows, vocabulary], of the token that follows each of `prefixes`, int64 [rows, t],
/// which start with `begin`. In every call rows r * beam .. (r + 1) * beam - 1 belong to sentence r.
using NextToken = std::function<at::Tensor(const at::Tensor& prefixes)>;

/// Returns, for each of `sentences`, the tokens of the finished sentence with the highest score, without begin and end.
/// At each step the `beam` most probable unfinished sentences are kept; a sentence whose end is among the `beam` most
/// probable continuations is finished. Stops when `beam` sentences are finished, when no unfinished one can exceed the
/// best score, or at the maximum length.
std::vector<std::vector<int64_t>> beam_search(int64_t sentences, const NextToken& next, const BeamOptions& options);

}  // namespace trireme
