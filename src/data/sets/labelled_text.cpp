#include "data/catalogue.h"
#include "data/text/text_sets.h"

namespace trireme::sets {

KnownSet labelled_text() {
  return {.name = "labelled-text",
          .title = "sentences with labels",
          .description = "any file of lines \"label<tab>sentence\" for each split",
          .task = LearningTask::classification,
          .origin = DataOrigin::own_files,
          .keys = sentence_keys(),
          .read = read_sentence_keys,
          .open =
              [](const DataSpec& spec, const KnownSet&, const std::filesystem::path&) {
                check_file_numbers(spec, 1, "name a file of lines \"label<tab>sentence\" for each");
                return open_sentences(spec, spec.train_files[0], spec.test_files[0], spec.train_files[0].string());
              },
          .shape = [](const DataSpec& spec) { return sentences_shape(spec, 0, 0, 0, 0); }};
}

}  // namespace trireme::sets
