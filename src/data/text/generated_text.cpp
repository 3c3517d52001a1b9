#include "data/text/generated_text.h"

#include <array>
#include <string>

#include "base/random.h"

namespace trireme {
namespace {

constexpr uint32_t kTopics = 4;
constexpr double kTopicChange = 0.01;  // per token
// entropy 1.21 nats
constexpr std::array kCumulative{0.5, 0.75, 0.9, 1.0};

using Successors = std::array<int32_t, kCumulative.size()>;

/// Successors by topic and token.
std::vector<Successors> make_chain(uint64_t seed) {
  std::vector<Successors> chain;
  for (uint32_t topic = 0; topic < kTopics; ++topic)
    for (int64_t token = 0; token < kTextVocabulary; ++token) {
      const std::string purpose = "text/" + std::to_string(topic) + "/" + std::to_string(token);
      const std::vector<int64_t> order = random_permutation(kTextVocabulary, random_key(seed, purpose));
      Successors& successors = chain.emplace_back();
      for (size_t i = 0; i < successors.size(); ++i) successors[i] = static_cast<int32_t>(order[i]);
    }
  return chain;
}

double unit(uint32_t word) { return word * 0x1p-32; }

}  // namespace

std::vector<int32_t> generate_text(TextSplit split, int64_t count, uint64_t seed) {
  const std::vector<Successors> chain = make_chain(seed);
  const Philox random(random_key(seed, split == TextSplit::train ? "text/train" : "text/test"));
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  uint32_t topic = 0;
  size_t token = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto [choice, change, next_topic, unused] = random(i);
    if (i == 0 || unit(change) < kTopicChange) topic = next_topic % kTopics;
    size_t successor = 0;
    while (unit(choice) >= kCumulative[successor]) ++successor;
    token = static_cast<size_t>(chain[topic * kTextVocabulary + token][successor]);
    tokens[i] = static_cast<int32_t>(token);
  }
  return tokens;
}

}  // namespace trireme
