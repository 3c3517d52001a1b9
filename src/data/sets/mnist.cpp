#include <fmt/format.h>

#include "data/catalogue.h"
#include "data/images/idx.h"
#include "data/images/image_sets.h"
#include "data/sets/digits.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

constexpr int64_t kMnistClasses = 10, kMnistSide = 28;

DownloadSource mnist_file(const std::string& name, int64_t size, const std::string& sha256) {
  return {name,
          sha256,
          size,
          {"https://ossci-datasets.s3.amazonaws.com/mnist/" + name,
           "https://storage.googleapis.com/cvdf-datasets/mnist/" + name}};
}

Images read_mnist_split(const KnownSet& set, const std::filesystem::path& folder, size_t first_part) {
  std::filesystem::path files[2];
  for (size_t i = 0; i < 2; ++i) {
    const auto& part = set.parts[first_part + i];
    files[i] = find_part(folder, part).value_or(folder / part.names.front());  // the reader reports a missing file
  }
  return read_idx_images(files[0], files[1], kMnistClasses, set.name);
}

TaskData open_mnist(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder) {
  Images train = read_mnist_split(set, folder, 0), test = read_mnist_split(set, folder, 2);
  if (train.height != test.height || train.width != test.width)
    fail_user({.where = folder.string(),
               .what = fmt::format("training images of {}x{}, test images of {}x{}", train.height, train.width,
                                   test.height, test.width),
               .why = "both must have one size",
               .next = "delete the files and get the set again: trireme data get " + set.name});
  const int64_t whole_train = train.count(), whole_test = test.count();
  return image_task(spec, {std::move(train), std::move(test), whole_train, whole_test}, kMnistClasses,
                    {{0.1307}, {0.3081}}, set.found_in(folder));
}

}  // namespace

// Sizes and SHA-256 of the published .gz files: TensorFlow Datasets, tensorflow_datasets/url_checksums/mnist.txt. A .gz
// that is made again from the same images has other bytes, so parts have no size here.
KnownSet mnist() {
  auto part = [](const std::string& split, const std::string& kind) {
    return KnownSet::Part{{split + "-" + kind + "-ubyte.gz", split + "-" + kind + "-ubyte",
                           split + "-" + kind.substr(0, 6) + "." + kind.substr(7) + "-ubyte"},
                          0};
  };
  return {.name = "mnist",
          .title = "MNIST",
          .description = "handwritten digits, 28x28 grey, 60,000 + 10,000",
          .task = LearningTask::classification,
          .folders = {"mnist", "MNIST/raw", "MNIST"},
          .parts = {part("train", "images-idx3"), part("train", "labels-idx1"), part("t10k", "images-idx3"),
                    part("t10k", "labels-idx1")},
          .sources = {mnist_file("train-images-idx3-ubyte.gz", 9912422,
                                 "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
                      mnist_file("train-labels-idx1-ubyte.gz", 28881,
                                 "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
                      mnist_file("t10k-images-idx3-ubyte.gz", 1648877,
                                 "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
                      mnist_file("t10k-labels-idx1-ubyte.gz", 4542,
                                 "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6")},
          .keys = image_keys(),
          .read = read_image_keys,
          .open = open_mnist,
          .stand_in = open_digits,
          .shape = [](const DataSpec& spec) {
            const ImageSize size = sample_size(spec, {kMnistSide, kMnistSide});
            return SetShape{.task = LearningTask::classification,
                            .sample = {1, size.height, size.width},
                            .classes = kMnistClasses,
                            .train = 60'000,
                            .test = 10'000};
          }};
}

}  // namespace trireme::sets
