#include "data/sets/digits.h"
#include "data/catalogue.h"
#include "data/images/generated_digits.h"
#include "data/images/image_sets.h"
#include "data/task_data.h"

namespace trireme::sets {

TaskData open_digits(const DataSpec& spec, const std::string& reason) {
  constexpr int64_t kClasses = 10;
  Images train = generate_digits(DigitSplit::train, limited(spec.train_limit, kDigitTrain), spec.seed);
  Images test = generate_digits(DigitSplit::test, limited(spec.test_limit, kDigitTest), spec.seed);
  TaskData task = image_task(spec, {std::move(train), std::move(test), kDigitTrain, kDigitTest}, kClasses,
                             digit_normalization(), "generated digits" + reason);
  task.generated = true;
  return task;
}

KnownSet digits() {
  return {.name = "digits",
          .title = "generated digits",
          .description = "digits drawn by trireme, 28x28 grey, 60,000 + 10,000",
          .task = LearningTask::classification,
          .origin = DataOrigin::generated,
          .keys = image_keys(),
          .read = read_image_keys,
          .open = [](const DataSpec& spec, const KnownSet&, const std::filesystem::path&) {
            return open_digits(spec, "");
          }};
}

}  // namespace trireme::sets
