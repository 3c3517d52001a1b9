#include "metrics/beam_search.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double length_correction(int64_t tokens, double alpha) { return std::pow((5 + double(tokens)) / 6, alpha); }

struct Hypothesis {
  std::vector<int64_t> tokens;  ///< without begin and end
  double log_probability = kImpossible;
};

/// A sentence with its possible next token.
struct Candidate {
  size_t parent = 0;  ///< index in Search::unfinished_
  int64_t token = 0;
  double log_probability = kImpossible;
};

/// The search for one sentence.
class Search {
 public:
  explicit Search(const BeamOptions& options) : options_(options), unfinished_{{{}, 0}} {}

  bool is_done() const { return done_; }
  const std::vector<int64_t>& best() const { return best_.tokens; }

  /// Writes the prefix of row `row` of this sentence, `length` tokens. Rows without a hypothesis repeat the first one.
  void write_prefix(size_t row, int64_t length, int64_t* to) const {
    const Hypothesis& hypothesis = row < unfinished_.size() ? unfinished_[row] : unfinished_.front();
    std::fill_n(to, length, options_.end);
    to[0] = options_.begin;
    std::copy_n(hypothesis.tokens.begin(), std::min<size_t>(hypothesis.tokens.size(), size_t(length - 1)), to + 1);
  }

  /// Extends the hypotheses. `tokens`, `values`: tokens and log-probabilities [beam, k] of the most probable
  /// continuations of each row, in descending order.
  void advance(const int64_t* tokens, const double* values, int64_t k) {
    std::vector<Candidate> candidates;
    for (size_t h = 0; h < unfinished_.size(); ++h)
      for (int64_t i = 0; i < k; ++i)
        candidates.push_back(
            {h, tokens[int64_t(h) * k + i], unfinished_[h].log_probability + values[int64_t(h) * k + i]});
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.log_probability > b.log_probability; });
    std::vector<Hypothesis> next;
    for (size_t rank = 0; rank < candidates.size() && next.size() < size_t(options_.beam); ++rank) {
      const Candidate& c = candidates[rank];
      Hypothesis hypothesis{unfinished_[c.parent].tokens, c.log_probability};
      const bool ends = c.token == options_.end;
      if (ends && rank < size_t(options_.beam)) finish(hypothesis, int64_t(hypothesis.tokens.size()) + 1);
      if (ends) continue;
      hypothesis.tokens.push_back(c.token);
      next.push_back(std::move(hypothesis));
    }
    unfinished_ = std::move(next);
    end_if_settled();
  }

 private:
  void finish(const Hypothesis& hypothesis, int64_t tokens) {
    ++finished_;
    const double score = hypothesis.log_probability / length_correction(tokens, options_.length_penalty);
    if (finished_ > 1 && score <= best_score_) return;
    best_ = hypothesis;
    best_score_ = score;
  }

  void end_if_settled() {
    const bool at_the_end = !unfinished_.empty() && int64_t(unfinished_.front().tokens.size()) == options_.longest;
    if (at_the_end && finished_ < options_.beam)
      for (const Hypothesis& hypothesis : unfinished_) finish(hypothesis, options_.longest);
    // from here on probabilities only decrease, and the longest sentence has the largest correction
    const double reachable = unfinished_.empty() ? kImpossible
                                                 : unfinished_.front().log_probability /
                                                       length_correction(options_.longest, options_.length_penalty);
    done_ =
        at_the_end || finished_ >= options_.beam || unfinished_.empty() || (finished_ > 0 && best_score_ >= reachable);
    if (unfinished_.empty()) unfinished_.push_back(best_);  // keeps the rows of a finished sentence filled
  }

  const BeamOptions& options_;
  std::vector<Hypothesis> unfinished_;  ///< at most `beam`, in descending order of probability
  Hypothesis best_;
  double best_score_ = kImpossible;
  int64_t finished_ = 0;
  bool done_ = false;
};

}  // namespace

std::vector<std::vector<int64_t>> beam_search(int64_t sentences, const NextToken& next, const BeamOptions& options) {
  check_internal(options.beam >= 1 && options.longest >= 1, "a beam and a length are at least 1");
  std::vector<Search> searches(static_cast<size_t>(sentences), Search(options));
  for (int64_t length = 1; length <= options.longest; ++length) {
    if (std::all_of(searches.begin(), searches.end(), [](const Search& s) { return s.is_done(); })) break;
    at::Tensor prefixes = at::empty({sentences * options.beam, length}, at::kLong);
    for (int64_t row = 0; row < prefixes.size(0); ++row)
      searches[size_t(row / options.beam)].write_prefix(size_t(row % options.beam), length,
                                                        prefixes.data_ptr<int64_t>() + row * length);
    const at::Tensor scores = next(prefixes);
    // enough continuations of each row to fill the beam even if all ends are left out
    const int64_t k = std::min(scores.size(1), 2 * options.beam);
    const auto [values, tokens] = at::topk(scores.to(at::kDouble), k, 1);
    const at::Tensor v = values.contiguous(), t = tokens.contiguous();
    for (int64_t s = 0; s < sentences; ++s)
      if (!searches[size_t(s)].is_done())
        searches[size_t(s)].advance(t.data_ptr<int64_t>() + s * options.beam * k,
                                    v.data_ptr<double>() + s * options.beam * k, k);
  }
  std::vector<std::vector<int64_t>> results;
  for (const Search& search : searches) results.push_back(search.best());
  return results;
}

}  // namespace trireme
