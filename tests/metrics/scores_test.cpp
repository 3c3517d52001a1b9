// Compares BLEU, AUC and beam search with counts made by hand, with pairs and with exhaustive search.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "metrics/auc.h"
#include "metrics/beam_search.h"
#include "metrics/bleu.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

TEST(BleuTokens, FollowTheRulesOf13a) {
  EXPECT_EQ(bleu_tokens("Hello, world!"), (Words{"Hello", ",", "world", "!"}));
  EXPECT_EQ(bleu_tokens("It costs $1,234.56 (about 3.5%)."),
            (Words{"It", "costs", "$", "1,234.56", "(", "about", "3.5", "%", ")", "."}));
  EXPECT_EQ(bleu_tokens("a well-known 19-year-old's e-mail"),
            (Words{"a", "well-known", "19", "-", "year-old's", "e-mail"}));
  EXPECT_EQ(bleu_tokens("&quot;a&amp;b&quot; &lt;x&gt;"), (Words{"\"", "a", "&", "b", "\"", "<", "x", ">"}));
  EXPECT_EQ(bleu_tokens("wait..."), (Words{"wait", ".", ".", "."}));
  EXPECT_EQ(bleu_tokens("größer, élan."), (Words{"größer", ",", "élan", "."}));
  EXPECT_EQ(bleu_tokens("  one\ttwo \u00a0three\u3000four\u2009 "), (Words{"one", "two", "three", "four"}));
  EXPECT_EQ(bleu_tokens("a<skipped>b"), (Words{"ab"}));
  EXPECT_TRUE(bleu_tokens(" ").empty());
}

/// Papineni et al. (2002), section 2: the references contain "the" at most twice.
TEST(Bleu, ClipsCountsAsThePapersExample) {
  const Bleu bleu = corpus_bleu({"the the the the the the the"}, {"The cat is on the mat . the"});
  EXPECT_EQ(bleu.correct[0], 2);
  EXPECT_EQ(bleu.total, (std::array<int64_t, 4>{7, 6, 5, 4}));
  EXPECT_EQ(bleu.correct[1], 0);
}

TEST(Bleu, IsOneHundredForEqualTexts) {
  const Words text{"A man sleeps in a green room on a couch.", "Two dogs run through the snow, barking."};
  const Bleu bleu = corpus_bleu(text, text);
  EXPECT_NEAR(bleu.score, 100, 1e-9);
  EXPECT_EQ(bleu.brevity_penalty, 1);
  EXPECT_EQ(bleu.correct, bleu.total);
}

/// Counted by hand. Hypothesis "the cat sat on the mat ." (7 tokens), reference "the cat is on the mat ." (7 tokens):
/// unigrams 6 of 7, bigrams 4 of 6 (the cat, on the, the mat, mat .), trigrams 2 of 5, 4-grams 1 of 4 (on the mat .).
TEST(Bleu, OfOneSentenceByHand) {
  const Bleu bleu = corpus_bleu({"the cat sat on the mat."}, {"the cat is on the mat."});
  EXPECT_EQ(bleu.correct, (std::array<int64_t, 4>{6, 4, 2, 1}));
  EXPECT_EQ(bleu.total, (std::array<int64_t, 4>{7, 6, 5, 4}));
  EXPECT_NEAR(bleu.score, 100 * std::pow(6.0 / 7 * 4.0 / 6 * 2.0 / 5 * 1.0 / 4, 0.25), 1e-9);
}

/// The counts are summed before the division; the penalty is that of the whole corpus.
TEST(Bleu, OfACorpusByHand) {
  const Bleu bleu = corpus_bleu({"a b c d", "x y"}, {"a b c d e f", "x z"});
  EXPECT_EQ(bleu.correct, (std::array<int64_t, 4>{5, 3, 2, 1}));
  EXPECT_EQ(bleu.total, (std::array<int64_t, 4>{6, 4, 2, 1}));
  EXPECT_EQ(bleu.hypothesis_tokens, 6);
  EXPECT_EQ(bleu.reference_tokens, 8);
  EXPECT_NEAR(bleu.brevity_penalty, std::exp(1 - 8.0 / 6), 1e-12);
  EXPECT_NEAR(bleu.score, 100 * std::exp(1 - 8.0 / 6) * std::pow(5.0 / 6 * 3.0 / 4, 0.25), 1e-9);
}

/// An order without a match counts as 1/2 of an n-gram, the next one as 1/4.
TEST(Bleu, SmoothsExponentially) {
  const Bleu bleu = corpus_bleu({"a b x c d"}, {"a b y c d"});
  EXPECT_EQ(bleu.correct, (std::array<int64_t, 4>{4, 2, 0, 0}));
  EXPECT_NEAR(bleu.precisions[2], 100 / (2.0 * 3), 1e-12);
  EXPECT_NEAR(bleu.precisions[3], 100 / (4.0 * 2), 1e-12);
  EXPECT_NEAR(bleu.score, std::pow(80.0 * 50.0 * 100 / 6 * 100 / 8, 0.25), 1e-9);
}

TEST(Bleu, IsNothingWhereThereIsNothingToCount) {
  EXPECT_EQ(corpus_bleu({"a b c d"}, {"e f g h"}).score, 0) << "no match";
  EXPECT_EQ(corpus_bleu({"a b c"}, {"a b c"}).score, 0) << "no 4-gram at all";
  EXPECT_EQ(corpus_bleu({""}, {"a b c d"}).score, 0);
  EXPECT_EQ(corpus_bleu({""}, {"a b c d"}).brevity_penalty, 0);
  EXPECT_EQ(corpus_bleu({}, {}).score, 0);
}

double pairs_in_order(const std::vector<double>& scores, const std::vector<int64_t>& labels) {
  double won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i)
    for (size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] != 1 || labels[j] != 0) continue;
      pairs += 1;
      won += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  return won / pairs;
}

TEST(Auc, IsTheShareOfPairsInOrder) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> scores(size_t(2 + random() % 60));
    std::vector<int64_t> labels(scores.size());
    const unsigned values = 1 + random() % 20;  // few values: many ties
    for (size_t i = 0; i < scores.size(); ++i)
      scores[i] = double(random() % values) - 3, labels[i] = int64_t(random() % 2);
    labels[0] = 0, labels[1] = 1;
    EXPECT_NEAR(area_under_roc(scores, labels), pairs_in_order(scores, labels), 1e-12);
  }
}

TEST(Auc, KnowsItsLimits) {
  const std::vector<double> scores{1, 2, 3, 4};
  EXPECT_EQ(area_under_roc(scores, std::vector<int64_t>{0, 0, 1, 1}), 1);
  EXPECT_EQ(area_under_roc(scores, std::vector<int64_t>{1, 1, 0, 0}), 0);
  EXPECT_EQ(area_under_roc(std::vector<double>(4, 7.0), std::vector<int64_t>{0, 1, 0, 1}), 0.5);
  EXPECT_TRUE(std::isnan(area_under_roc(scores, std::vector<int64_t>(4, 1))));
  EXPECT_TRUE(std::isnan(area_under_roc(std::vector<double>{1, std::nan("")}, std::vector<int64_t>{0, 1})));
}

constexpr int64_t kVocabulary = 4, kBegin = 0, kEnd = 1;

/// A random language: log-probabilities that depend on the whole prefix and on the sentence.
struct Language {
  explicit Language(uint64_t s) : seed(s) {}
  std::vector<double> after(int64_t sentence, const std::vector<int64_t>& prefix) const {
    uint64_t key = seed * 31 + uint64_t(sentence);
    for (int64_t token : prefix) key = key * 1000003 + uint64_t(token) + 1;
    std::mt19937_64 random(key);
    std::vector<double> values(kVocabulary);
    double sum = 0;
    for (double& v : values) sum += v = std::exp(3.0 * double(random() >> 11) / double(1ull << 53));
    for (double& v : values) v = std::log(v / sum);
    return values;
  }
  NextToken next(int64_t beam) const {
    return [this, beam](const at::Tensor& prefixes) {
      at::Tensor scores = at::empty({prefixes.size(0), kVocabulary}, at::kDouble);
      for (int64_t row = 0; row < prefixes.size(0); ++row) {
        const int64_t* p = prefixes.data_ptr<int64_t>() + row * prefixes.size(1);
        EXPECT_EQ(p[0], kBegin);
        const auto values = after(row / beam, {p + 1, p + prefixes.size(1)});
        std::copy(values.begin(), values.end(), scores.data_ptr<double>() + row * kVocabulary);
      }
      return scores;
    };
  }

  uint64_t seed;
};

/// The best of all sentences of at most `longest` tokens.
void search_all(const Language& language, int64_t sentence, const BeamOptions& o, std::vector<int64_t>& prefix,
                double log_probability, double& best_score, std::vector<int64_t>& best) {
  const auto offer = [&](double value, int64_t tokens) {
    const double score = value / std::pow((5 + double(tokens)) / 6, o.length_penalty);
    if (score > best_score) best_score = score, best = prefix;
  };
  if (int64_t(prefix.size()) == o.longest) return offer(log_probability, o.longest);
  const auto values = language.after(sentence, prefix);
  for (int64_t token = 0; token < kVocabulary; ++token) {
    if (token == kEnd) {
      offer(log_probability + values[size_t(token)], int64_t(prefix.size()) + 1);
      continue;
    }
    prefix.push_back(token);
    search_all(language, sentence, o, prefix, log_probability + values[size_t(token)], best_score, best);
    prefix.pop_back();
  }
}

TEST(BeamSearch, WideEnoughFindsTheBestOfAll) {
  const uint64_t seed = std::random_device()();
  for (double penalty : {0.0, 0.6, 2.0}) {
    SCOPED_TRACE(fmt::format("seed {}, length penalty {}", seed, penalty));
    const Language language(seed);
    const BeamOptions options{
        .beam = 200, .length_penalty = penalty, .begin = kBegin, .end = kEnd, .longest = 4};  // there are 121 sentences
    const auto found = beam_search(3, language.next(options.beam), options);
    for (int64_t sentence = 0; sentence < 3; ++sentence) {
      std::vector<int64_t> prefix, best;
      double best_score = -std::numeric_limits<double>::infinity();
      search_all(language, sentence, options, prefix, 0, best_score, best);
      EXPECT_EQ(found[size_t(sentence)], best);
    }
  }
}

TEST(BeamSearch, OfOneIsGreedy) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const Language language(seed);
  constexpr int64_t kSentences = 20;
  const BeamOptions options{.begin = kBegin, .end = kEnd, .longest = 6};
  const auto found = beam_search(kSentences, language.next(1), options);
  for (int64_t sentence = 0; sentence < kSentences; ++sentence) {
    std::vector<int64_t> expected;
    while (int64_t(expected.size()) < options.longest) {
      const auto values = language.after(sentence, expected);
      const int64_t token = std::max_element(values.begin(), values.end()) - values.begin();
      if (token == kEnd) break;
      expected.push_back(token);
    }
    EXPECT_EQ(found[size_t(sentence)], expected) << sentence;
  }
}

/// The likeliest first token has only unlikely successors. Greedy search chooses it; a beam of two does not.
TEST(BeamSearch, SeesFurtherThanGreedy) {
  const NextToken next = [](const at::Tensor& prefixes) {
    at::Tensor p = at::full({prefixes.size(0), kVocabulary}, 1e-6, at::kDouble);
    for (int64_t row = 0; row < p.size(0); ++row) {
      const int64_t last = prefixes[row][prefixes.size(1) - 1].item<int64_t>();
      double* to = p[row].data_ptr<double>();
      if (last == kBegin) to[2] = 0.55, to[3] = 0.45;
      if (last == 2) to[kEnd] = 0.3, to[2] = 0.3, to[3] = 0.3;
      if (last == 3) to[kEnd] = 0.99;
    }
    return p.log();
  };
  BeamOptions options{.length_penalty = 0, .begin = kBegin, .end = kEnd, .longest = 3};
  EXPECT_EQ(beam_search(1, next, options)[0].front(), 2);
  options.beam = 2;
  EXPECT_EQ(beam_search(1, next, options)[0], std::vector<int64_t>{3});
}

}  // namespace
}  // namespace trireme
