#include "data/catalogue.h"
#include "data/text/text_sets.h"

namespace trireme::sets {
namespace {

constexpr int64_t kWords = 14'831;  // different ones in train.tsv

}  // namespace

// The two classes of the Stanford Sentiment Treebank, whole sentences only (R. Socher et al., EMNLP 2013).
KnownSet sst2() {
  return {.name = "sst2",
          .title = "SST-2",
          .description = "sentences of film reviews, good or bad, 6,920 + 1,821",
          .task = LearningTask::classification,
          .folders = {"sst2", "SST-2", "SST2"},
          .sources =
              published_at("https://raw.githubusercontent.com/YJiangcm/SST-2-sentiment-analysis/master/data/",
                           {{"train.tsv", "5b56af66a194e685c0fbde5f58c4355ab00f5485a29bfcae1085b4b9f8b1a6c3", 739272},
                            {"dev.tsv", "c9ddb67ce3068540c5bb6562e1f34788302dd06d570e6ca0d5e61f7d5ef2bfad", 94452},
                            {"test.tsv", "5e133ae65857bb44629508a8924531a1e4dd2d64f2a831507803512b4bb49043", 193650}}),
          .keys = sentence_keys(),
          .read = read_sentence_keys,
          .open =
              [](const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
                return open_sentences(spec, folder / "train.tsv", folder / "test.tsv", set.found_in(folder));
              },
          .shape = [](const DataSpec& spec) { return sentences_shape(spec, 6'920, 1'821, 2, kWords); }};
}

}  // namespace trireme::sets
