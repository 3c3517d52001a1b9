#include "data/catalogue.h"
#include "data/images/cifar.h"
#include "data/images/image_sets.h"

namespace trireme::sets {
namespace {

TaskData open_cifar100(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  return open_cifar(spec, {.name = set.name, .title = set.title, .classes = 100, .coarse_classes = 20},
                    {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}}, folder);
}

}  // namespace

// Size and SHA-256 of the archive: TensorFlow Datasets, tensorflow_datasets/url_checksums/cifar100.txt.
KnownSet cifar100() {
  return {.name = "cifar100",
          .title = "CIFAR-100",
          .description = "photographs of 100 kinds of things, 32x32 RGB, 50,000 + 10,000",
          .task = LearningTask::classification,
          .folders = {"cifar-100-binary", "cifar100"},
          .parts = {{{"train.bin"}, 153700000}, {{"test.bin"}, 30740000}},
          .sources = {{"cifar-100-binary.tar.gz",
                       "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                       168513733,
                       {"https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"}}},
          .archived = true,
          .keys = augmented_image_keys(),
          .read = read_image_keys,
          .open = open_cifar100,
          .shape = [](const DataSpec& spec) { return cifar_shape(spec, 100); }};
}

}  // namespace trireme::sets
