// A text written by Trireme itself, for when there is no data set and no network: a Markov chain with a topic. Each
// topic gives every token four successors with fixed probabilities; now and then the topic changes. A model that knows
// the last token alone does well, one that remembers the topic better: then the next token has an entropy of about 1.2
// nats, a perplexity of 3.4.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

inline constexpr int64_t kTextVocabulary = 64;
inline constexpr int64_t kTextTrain = 200000;  ///< tokens
inline constexpr int64_t kTextTest = 20000;

enum class TextSplit { train, test };

/// The first `count` tokens of a split. Both splits of one seed are drawn from one chain; a shorter text is a prefix of
/// a longer one.
std::vector<int32_t> generate_text(TextSplit split, int64_t count, uint64_t seed);

}  // namespace trireme
