#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "data/sampler.h"
#include "data/text/generated_text.h"
#include "data/text/text_stream.h"
#include "data/text/words.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> counting(int64_t n) {
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(TextStream, TargetsAreTheTokensOneFurtherOn) {
  TextStream text(counting(12), 12, 3);
  EXPECT_EQ(text.size(), 3);  // token 11 alone fills no window, and 9 to 11 lack a target
  Samples samples = text.get(std::vector<int64_t>{2, 0}, {});
  EXPECT_EQ(samples.data.scalar_type(), at::kLong);
  EXPECT_TRUE(at::equal(samples.data, at::tensor({6, 7, 8, 0, 1, 2}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(samples.target, samples.data + 1));
  EXPECT_EQ(TextStream(counting(13), 13, 3).size(), 4);
  EXPECT_EQ(text.get(std::vector<int64_t>{}, {}).data.sizes(), (std::vector<int64_t>{0, 3}));
  error_of([&] { text.get(std::vector<int64_t>{3}, {}); }, Blame::run);
  text.keep_first(2);
  EXPECT_EQ(text.size(), 2);
  EXPECT_EQ(text.get(std::vector<int64_t>{1}, {}).target[0][2].item<int64_t>(), 6);
}

TEST(TextStream, RefusesWindowsThatDoNotFit) {
  EXPECT_EQ(TextStream(counting(4), 4, 3).size(), 1);
  EXPECT_THAT(error_of([] { TextStream(counting(4), 4, 4); }),
              AllOf(HasSubstr("data.sequence: 4"), HasSubstr("4 tokens"), HasSubstr("at most 3")));
  EXPECT_THAT(error_of([] { TextStream(counting(4), 4, 0); }), HasSubstr("data.sequence: 0"));
}

TEST(TextStream, InStreamOrderRowsReadOnAndEveryTokenIsPredictedOnce) {
  for (auto [tokens, window, rows] :
       {std::tuple<int64_t, int64_t, int64_t>{101, 5, 4}, {1000, 7, 10}, {64, 9, 1}, {50, 10, 4}}) {
    TextStream text(counting(tokens), tokens, window);
    BatchSampler sampler(text.size(), rows, 1, false, SampleOrder::stream);
    std::multiset<int64_t> predicted;
    at::Tensor last;
    for (int64_t k = 0; k < sampler.steps_per_epoch(); ++k) {
      Samples batch = text.get(sampler.batch(0, k), {});
      if (!sampler.starts_anew(k)) {
        EXPECT_TRUE(at::equal(batch.data.select(1, 0), last)) << "a row starts with what it was last to predict";
      }
      last = batch.target.select(1, window - 1).clone();
      const int64_t* target = batch.target.data_ptr<int64_t>();
      predicted.insert(target, target + batch.target.numel());
    }
    const int64_t count = text.size() * window;
    ASSERT_EQ(static_cast<int64_t>(predicted.size()), count);
    EXPECT_EQ(std::set<int64_t>(predicted.begin(), predicted.end()).size(), predicted.size());
    EXPECT_EQ(*predicted.begin(), 1);
    EXPECT_EQ(*predicted.rbegin(), count);
  }
}

TEST(Words, AreNumberedInOrderWithLinesEnded) {
  TemporaryFolder folder;
  write_file(folder / "train.txt", "  to be  or\tnot to be\n\n be\r\nthe end");
  Vocabulary vocabulary;
  EXPECT_THAT(read_training_text(folder / "train.txt", vocabulary, "advice"),
              ElementsAre(0, 1, 2, 3, 0, 1, 4, 1, 4, 5, 6, 4));
  EXPECT_EQ(vocabulary.size(), 7);
  EXPECT_EQ(vocabulary.word(4), "<eos>");
  EXPECT_EQ(vocabulary.find("not"), 3);
  EXPECT_EQ(vocabulary.find("nothing"), -1);
  write_file(folder / "test.txt", "the\nbe question\n");
  EXPECT_THAT(error_of([&] { read_text(folder / "test.txt", vocabulary, "advice"); }),
              AllOf(HasSubstr((folder / "test.txt").string() + ":2"), HasSubstr("\"question\""), HasSubstr("advice")));
  vocabulary.add("<unk>");
  EXPECT_THAT(read_text(folder / "test.txt", vocabulary, "advice"), ElementsAre(5, 4, 1, 7, 4));
}

TEST(Words, BeginAfterAByteOrderMark) {
  const TemporaryFolder folder;
  write_file(folder / "train.txt", "\xEF\xBB\xBFthe cat\nthe dog\n");
  Vocabulary vocabulary;
  EXPECT_THAT(read_training_text(folder / "train.txt", vocabulary, "advice"), ElementsAre(0, 1, 2, 0, 3, 2));
}

TEST(Words, RefusesFilesWithoutAny) {
  TemporaryFolder folder;
  Vocabulary vocabulary;
  write_file(folder / "empty.txt", " \n\n");
  EXPECT_THAT(error_of([&] { read_training_text(folder / "empty.txt", vocabulary, "advice"); }), HasSubstr("no words"));
  EXPECT_THAT(error_of([&] { read_training_text(folder / "none.txt", vocabulary, "advice"); }),
              HasSubstr("no such file"));
  write_file(folder / "latin.txt", "one\ncaf\xe9\n");
  EXPECT_THAT(error_of([&] { read_training_text(folder / "latin.txt", vocabulary, "advice"); }),
              AllOf(HasSubstr("latin.txt:2:4: byte 0xe9 at position 7"), HasSubstr("not UTF-8")));
}

TEST(GeneratedText, DependsOnSeedAndSplitAndIsAPrefixOfALongerOne) {
  const auto text = generate_text(TextSplit::train, 5000, 1), longer = generate_text(TextSplit::train, 6000, 1);
  EXPECT_TRUE(std::equal(text.begin(), text.end(), longer.begin()));
  EXPECT_NE(text, generate_text(TextSplit::train, 5000, 2));
  EXPECT_NE(text, generate_text(TextSplit::test, 5000, 1));
  for (int32_t token : text) ASSERT_TRUE(token >= 0 && token < kTextVocabulary);
}

/// Entropy of the next token in nats, from counts. `before` returns the part of the past that is known.
template <class Key, class Before>
double entropy(const std::vector<int32_t>& text, Before before) {
  std::map<Key, std::map<int32_t, double>> counts;
  for (size_t i = 1; i < text.size(); ++i) ++counts[before(i)][text[i]];
  double sum = 0;
  for (const auto& [key, next] : counts) {
    double all = 0;
    for (const auto& [token, n] : next) all += n;
    for (const auto& [token, n] : next) sum -= n * std::log(n / all);
  }
  return sum / static_cast<double>(text.size() - 1);
}

TEST(GeneratedText, RewardsMemory) {
  const auto text = generate_text(TextSplit::train, kTextTrain, 3);
  const double blind = entropy<int>(text, [](size_t) { return 0; });
  const double last = entropy<int32_t>(text, [&](size_t i) { return text[i - 1]; });
  using Pair = std::pair<int32_t, int32_t>;
  const double two = entropy<Pair>(text, [&](size_t i) { return Pair{i > 1 ? text[i - 2] : -1, text[i - 1]}; });
  EXPECT_GT(blind, 3.8);
  EXPECT_LT(blind, std::log(double(kTextVocabulary)));
  EXPECT_LT(last, 2.7);  // four topics with four successors each
  EXPECT_LT(two, last - 0.5) << "two tokens tell more of the topic than one";
  EXPECT_GT(two, 1.2);
  std::set<Pair> seen;
  for (size_t i = 1; i < text.size(); ++i) seen.insert({text[i - 1], text[i]});
  const auto test = generate_text(TextSplit::test, kTextTest, 3);
  int64_t unseen = 0;
  for (size_t i = 1; i < test.size(); ++i) unseen += !seen.contains({test[i - 1], test[i]});
  EXPECT_LE(unseen, 5) << "both splits are of one chain";
}

}  // namespace
}  // namespace trireme
