#include "data/open.h"

#include <ATen/ATen.h>

#include <numeric>
#include <vector>

#include "data/search_folders.h"
#include "real_data.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// An environment in which no data set of this machine is found: no variables, an empty home and working folder.
class OpenData : public ::testing::Test {
 protected:
  OpenData() : before_(std::filesystem::current_path()) {
    std::filesystem::create_directories(folder_ / "work");
    std::filesystem::current_path(folder_ / "work");
  }
  ~OpenData() override { std::filesystem::current_path(before_); }

  void write_mnist(const std::filesystem::path& folder) {
    write_file(folder / "train-images-idx3-ubyte", idx_images(3, 2, 2, std::string(12, 'a')));
    write_file(folder / "train-labels-idx1-ubyte", idx_labels(std::string{1, 2, 3}));
    write_file(folder / "t10k-images-idx3-ubyte", idx_images(2, 2, 2, std::string(8, 'b')));
    write_file(folder / "t10k-labels-idx1-ubyte", idx_labels(std::string{4, 5}));
  }

  std::filesystem::path before_;
  TemporaryFolder folder_;
  ScopedVariable data_{"TRIREME_DATA", std::nullopt};
  ScopedVariable cache_{"TRIREME_CACHE", (folder_ / "cache").string()};
};

TEST_F(OpenData, SearchesInTheDocumentedOrder) {
  auto order = [](const std::optional<std::filesystem::path>& dir) { return data_search_path(dir); };
  ScopedVariable data("TRIREME_DATA", "/d");
  EXPECT_EQ(order("/given"), (std::vector<std::filesystem::path>{"/given", "/d", folder_ / "cache"}));
  ScopedVariable cache("TRIREME_CACHE", std::nullopt), xdg("XDG_CACHE_HOME", "/x"), home("HOME", "/h");
  EXPECT_EQ(order({})[1], "/x/trireme");
  ScopedVariable no_xdg("XDG_CACHE_HOME", std::nullopt);
  EXPECT_EQ(order({})[1], "/h/.cache/trireme");
}

TEST_F(OpenData, FindsASetWithAndWithoutItsOwnFolderName) {
  for (const char* place : {"cache/mnist", "cache", "cache/MNIST/raw"}) {
    write_mnist(folder_ / place);
    TaskData task = open_data({.name = "mnist"});
    EXPECT_EQ(task.train->size(), 3) << place;
    EXPECT_EQ(task.test->size(), 2);
    EXPECT_EQ(task.train->classes(), 10);
    EXPECT_EQ(task.train->sample_shape(), (Shape{1, 2, 2}));
    EXPECT_FALSE(task.generated);
    EXPECT_THAT(task.source, HasSubstr("MNIST"));
    std::filesystem::remove_all(folder_ / "cache");
  }
}

TEST_F(OpenData, TakesTheFirstFolderAndTheFirstSamples) {
  write_mnist(folder_ / "given/mnist");
  write_mnist(folder_ / "cache/mnist");
  TaskData task = open_data({.name = "mnist", .data_dir = folder_ / "given", .train_limit = 2, .test_limit = 1});
  EXPECT_EQ(task.train->size(), 2);
  EXPECT_EQ(task.test->size(), 1);
  EXPECT_EQ(task.source,
            "MNIST, " + (folder_ / "given/mnist").string() + ", 2 of 3 training images, 1 of 2 test images");
}

TEST_F(OpenData, ReplacesMissingMnistByDigitsAndSaysSo) {
  TaskData task = open_data({.name = "mnist", .train_limit = 300, .test_limit = 50});
  EXPECT_TRUE(task.generated);
  EXPECT_THAT(task.source, AllOf(HasSubstr("generated digits: no MNIST was found"), HasSubstr("trireme data get mnist"),
                                 HasSubstr("300 of 60,000")));
  EXPECT_EQ(task.train->size(), 300);
  EXPECT_EQ(task.test->sample_shape(), (Shape{1, 28, 28}));
}

TEST_F(OpenData, DoesNotReplaceAnIncompleteSet) {
  write_mnist(folder_ / "cache/mnist");
  std::filesystem::remove(folder_ / "cache/mnist/t10k-labels-idx1-ubyte");
  EXPECT_THAT(error_of([] { open_data({.name = "mnist"}); }),
              AllOf(HasSubstr("t10k-labels"), HasSubstr("no such file")));
}

TEST_F(OpenData, ListsTheFoldersSearchedForAMissingSet) {
  EXPECT_THAT(error_of([] { open_data({.name = "cifar10"}); }),
              AllOf(HasSubstr("CIFAR-10: not found"), HasSubstr((folder_ / "cache").string()),
                    HasSubstr("trireme data get cifar10")));
}

TEST_F(OpenData, RefusesContradictorySettings) {
  EXPECT_THAT(error_of([] { open_data({.name = "minst"}); }),
              AllOf(HasSubstr("\"minst\""), HasSubstr("mnist, cifar10, digits, ptb, generated-text")));
  EXPECT_THAT(error_of([] { open_data({.name = "digits", .augment = true}); }), HasSubstr("data.augment"));
  EXPECT_THAT(error_of([] { open_data({.name = "digits", .train_limit = -1}); }), HasSubstr("data.train_limit: -1"));
  EXPECT_THAT(error_of([&] { open_data({.name = "mnist", .data_dir = folder_ / "no"}); }), HasSubstr("--data-dir"));
  EXPECT_THAT(error_of([] { open_data({.name = "digits", .sequence = 35}); }),
              AllOf(HasSubstr("data.sequence: 35"), HasSubstr("not a text")));
  EXPECT_THAT(error_of([] { open_data({.name = "generated-text", .sequence = -1}); }), HasSubstr("data.sequence: -1"));
}

TEST_F(OpenData, ReadsWordsOfAllFilesInTheTrainingTextsNumbers) {
  write_file(folder_ / "cache/ptb/ptb.train.txt", " the cat <unk> \n a cat \n");
  write_file(folder_ / "cache/ptb/ptb.test.txt", " a dog \n the\n");
  TaskData task = open_data({.name = "ptb", .sequence = 2});
  EXPECT_THAT(task.source, AllOf(HasSubstr("Penn Treebank, " + (folder_ / "cache/ptb").string()),
                                 HasSubstr("5 different tokens"), HasSubstr("sequences of 2")));
  EXPECT_FALSE(task.generated);
  EXPECT_TRUE(task.train->is_stream());
  EXPECT_EQ(task.train->classes(), 5);
  // Numbers of the words: the 0, cat 1, <unk> 2, <eos> 3, a 4.
  std::vector<int64_t> both{0, 1};
  Samples train = task.train->get(both, {}), test = task.test->get(both, {});
  EXPECT_TRUE(at::equal(train.data, at::tensor({0, 1, 2, 3}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(train.target, at::tensor({1, 2, 3, 4}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(test.data, at::tensor({4, 2, 3, 0}, at::kLong).view({2, 2})));
  EXPECT_TRUE(at::equal(test.target, at::tensor({2, 3, 0, 3}, at::kLong).view({2, 2})));
  EXPECT_THAT(error_of([] { open_data({.name = "ptb", .sequence = 5}); }),
              AllOf(HasSubstr("data.sequence: 5"), HasSubstr("5 tokens")));
  std::filesystem::remove(folder_ / "cache/ptb/ptb.test.txt");
  EXPECT_THAT(error_of([] { open_data({.name = "ptb"}); }),
              AllOf(HasSubstr("ptb.test.txt"), HasSubstr("trireme data get ptb")));
  std::filesystem::remove_all(folder_ / "cache");
  EXPECT_THAT(error_of([] { open_data({.name = "ptb"}); }), HasSubstr("Penn Treebank: not found"));
}

TEST_F(OpenData, WritesATextOfItsOwn) {
  TaskData task = open_data({.name = "generated-text", .train_limit = 100, .sequence = 20});
  EXPECT_TRUE(task.generated);
  EXPECT_EQ(task.train->size(), 100);
  EXPECT_EQ(task.test->size(), 999);  // the last token is only a target
  EXPECT_EQ(task.train->sample_shape(), Shape{20});
  EXPECT_EQ(task.train->target_shape(), Shape{20});
  EXPECT_EQ(
      task.source,
      "generated text, 64 different tokens, sequences of 20, 100 of 9,999 training sequences, 999 test sequences");
}

TEST_F(OpenData, SaysHowMuchOfCifarIsThere) {
  std::string record(3073, '\1');
  write_file(folder_ / "cache/cifar-10-batches-bin/data_batch_1.bin", record + record);
  write_file(folder_ / "cache/cifar-10-batches-bin/test_batch.bin", record);
  TaskData task = open_data({.name = "cifar10", .augment = true});
  EXPECT_THAT(task.source, HasSubstr("2 of 50,000 training images, 1 of 10,000 test images"));
  EXPECT_EQ(task.train->sample_shape(), (Shape{3, 32, 32}));
  std::vector<int64_t> first{0};
  Draw draw{.seed = 1, .epoch = 0, .augment = true};
  bool changed = false;
  for (; draw.epoch < 5; ++draw.epoch) {
    changed |= !at::equal(task.train->get(first, draw).data, task.train->get(first, {}).data);
    EXPECT_TRUE(at::equal(task.test->get(first, draw).data, task.test->get(first, {}).data)) << "test images stay";
  }
  EXPECT_TRUE(changed);
}

TEST(RealData, MnistIsReadWhole) {
  auto folder = real_set("mnist");
  if (!folder) GTEST_SKIP() << "no MNIST: set TRIREME_DATA to the folder that holds mnist/";
  TaskData task = open_data({.name = "mnist", .data_dir = *folder});
  EXPECT_EQ(task.train->size(), 60000);
  EXPECT_EQ(task.test->size(), 10000);
  Samples first = task.train->get(std::vector<int64_t>{0}, {});
  EXPECT_EQ(first.target[0].item<int64_t>(), 5);
  // The bytes of the first image add up to 27525 (by gzip and Python's sum).
  EXPECT_NEAR((first.data.to(at::kDouble) * 0.3081 + 0.1307).sum().item<double>() * 255, 27525, 0.1);
  std::vector<int64_t> all(60000);
  std::iota(all.begin(), all.end(), 0);
  at::Tensor data = task.train->get(all, {}).data.to(at::kDouble);
  EXPECT_NEAR(data.mean().item<double>(), 0, 1e-3) << "mean 0.1307 is MNIST's";
  EXPECT_NEAR(data.std().item<double>(), 1, 1e-3);
}

TEST(RealData, PennTreebankIsReadWhole) {
  auto folder = real_set("ptb");
  if (!folder) GTEST_SKIP() << "no Penn Treebank: set TRIREME_DATA to the folder that holds ptb/";
  TaskData task = open_data({.name = "ptb", .data_dir = *folder});
  EXPECT_EQ(task.train->classes(), 10000);
  EXPECT_EQ(task.train->size(), (929589 - 1) / 35);  // number of words and lines, from wc
  EXPECT_EQ(task.test->size(), (82430 - 1) / 35);
}

TEST(RealData, CifarBatchesAreRead) {
  auto folder = real_set("cifar-10-batches-bin");
  if (!folder) GTEST_SKIP() << "no CIFAR-10: set TRIREME_DATA to the folder that holds cifar-10-batches-bin/";
  TaskData task = open_data({.name = "cifar10", .data_dir = *folder});
  EXPECT_EQ(task.train->size() % 10000, 0);
  Samples first = task.train->get(std::vector<int64_t>{0}, {});
  EXPECT_EQ(first.target[0].item<int64_t>(), 6);  // a frog
  at::Tensor mean = at::tensor({0.4914, 0.4822, 0.4465}, at::kDouble).view({3, 1, 1});
  at::Tensor deviation = at::tensor({0.2470, 0.2435, 0.2616}, at::kDouble).view({3, 1, 1});
  at::Tensor bytes = at::round((first.data[0].to(at::kDouble) * deviation + mean) * 255);
  EXPECT_EQ(bytes[0][0][0].item<double>(), 59);
  EXPECT_EQ(bytes[1][0][0].item<double>(), 62);
  EXPECT_EQ(bytes[2][0][0].item<double>(), 63);
  EXPECT_EQ(bytes[0][0][31].item<double>(), 148);
  EXPECT_EQ(bytes.sum().item<double>(), 317790);
}

}  // namespace
}  // namespace trireme
