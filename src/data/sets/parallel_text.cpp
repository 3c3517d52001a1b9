#include "data/catalogue.h"
#include "data/text/text_sets.h"

namespace trireme::sets {

KnownSet parallel_text() {
  return {.name = "parallel-text",
          .title = "pairs of sentences",
          .description = "for each split any two files whose lines are translations of each other",
          .task = LearningTask::translation,
          .origin = DataOrigin::own_files,
          .keys = sentence_keys(),
          .read = read_sentence_keys,
          .open =
              [](const DataSpec& spec, const KnownSet&, const std::filesystem::path&) {
                check_file_numbers(
                    spec, 2, "name the source's file, then the target's: train = [\"train.en.gz\", \"train.de.gz\"]");
                return open_pairs(spec, spec.train_files, spec.test_files, spec.train_files[0].string());
              },
          .shape = [](const DataSpec& spec) { return pairs_shape(spec, 0, 0); }};
}

}  // namespace trireme::sets
