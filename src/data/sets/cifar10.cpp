#include <fmt/format.h>

#include "data/catalogue.h"
#include "data/images/cifar.h"
#include "data/images/image_sets.h"

namespace trireme::sets {
namespace {

TaskData open_cifar10(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  return open_cifar(spec, {.name = set.name, .title = set.title, .classes = 10},
                    {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}}, folder);
}

}  // namespace

// Size and SHA-256 of the archive: TensorFlow Datasets, tensorflow_datasets/url_checksums/cifar10.txt.
KnownSet cifar10() {
  constexpr int64_t kBatchBytes = 30730000;
  KnownSet set{.name = "cifar10",
               .title = "CIFAR-10",
               .description = "photographs of 10 kinds of things, 32x32 RGB, 50,000 + 10,000",
               .task = LearningTask::classification,
               .folders = {"cifar-10-batches-bin", "cifar10"},
               .sources = {{"cifar-10-binary.tar.gz",
                            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                            170052171,
                            {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"}}},
               .archived = true,
               .keys = augmented_image_keys(),
               .read = read_image_keys,
               .open = open_cifar10,
               .shape = [](const DataSpec& spec) { return cifar_shape(spec, 10); }};
  for (int batch = 1; batch <= 5; ++batch)
    set.parts.push_back({{fmt::format("data_batch_{}.bin", batch)}, kBatchBytes});
  set.parts.push_back({{"test_batch.bin"}, kBatchBytes});
  return set;
}

}  // namespace trireme::sets
