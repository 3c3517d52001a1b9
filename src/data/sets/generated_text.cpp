#include "data/text/generated_text.h"
#include "data/catalogue.h"
#include "data/text/text_sets.h"

namespace trireme::sets {

KnownSet generated_text() {
  return {.name = "generated-text",
          .title = "generated text",
          .description = "text of 64 different words written by trireme, 200,000 + 20,000",
          .task = LearningTask::language,
          .origin = DataOrigin::generated,
          .keys = {"sequence"},
          .open = [](const DataSpec& spec, const KnownSet& set, const std::filesystem::path&) {
            TaskData task =
                stream_task(spec, generate_text(TextSplit::train, kTextTrain, spec.seed),
                            generate_text(TextSplit::test, kTextTest, spec.seed), kTextVocabulary, set.title);
            task.generated = true;
            return task;
          }};
}

}  // namespace trireme::sets
