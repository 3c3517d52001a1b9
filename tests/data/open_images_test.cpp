#include <ATen/ATen.h>

#include <vector>

#include "data/catalogue.h"
#include "data/open.h"
#include "image_writer.h"
#include "real_data.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// An environment in which no data set of this machine is found.
class OpenImages : public ::testing::Test {
 protected:
  OpenImages() : before_(std::filesystem::current_path()) {
    std::filesystem::create_directories(folder_ / "work");
    std::filesystem::current_path(folder_ / "work");
  }
  ~OpenImages() override { std::filesystem::current_path(before_); }

  void write_classes(const std::string& root, const std::string& split) {
    for (const char* name : {"cat", "dog"})
      for (const char* file : {"1.png", "2.png"})
        write_file(folder_ / (root + "/" + split + "/" + name + "/" + file), rgb_png(4, 4, random_bytes(48, 1)));
  }

  std::filesystem::path before_;
  TemporaryFolder folder_;
  ScopedVariable data_{"TRIREME_DATA", std::nullopt};
  ScopedVariable cache_{"TRIREME_CACHE", (folder_ / "cache").string()};
};

TEST_F(OpenImages, FindsFoldersOfClassesByNameOrPath) {
  write_classes("cache/tiny-imagenet-100", "train");
  write_classes("cache/tiny-imagenet-100", "val");
  write_file(folder_ / "cache/tiny-imagenet-100/words.txt", "");
  const std::string root = (folder_ / "cache/tiny-imagenet-100").string();
  TaskData data = open_data({.name = "tiny-imagenet"});
  EXPECT_EQ(data.train->sample_shape(), (Shape{3, 64, 64}));
  EXPECT_EQ(data.train->size(), 4);
  EXPECT_EQ(data.source, "tiny ImageNet, " + root + ", 2 classes");
  data = open_data({.name = "folder", .augment = true, .train_limit = 2, .path = root});
  EXPECT_EQ(data.train->sample_shape(), (Shape{3, 224, 224}));
  EXPECT_EQ(data.source, "images by folder, " + root + ", 2 classes, 2 of 4 training images, 4 test images");
  EXPECT_TRUE(at::equal(data.train->get(std::vector<int64_t>{0, 1}, {}).target, at::tensor({0, 1}, at::kLong)));
  std::filesystem::remove_all(folder_ / "cache/tiny-imagenet-100/val");
  EXPECT_THAT(error_of([&] { open_data({.name = "tiny-imagenet"}); }), HasSubstr("val: no such folder"));
  EXPECT_THAT(error_of([&] { open_data({.name = "folder", .path = root}); }),
              HasSubstr("no folder val, valid, validation or test"));
  write_classes("cache/tiny-imagenet-100", "test");
  EXPECT_EQ(open_data({.name = "folder", .path = root}).test->size(), 4);
}

TEST_F(OpenImages, AugmentsByTheSetOrTheSpec) {
  std::string record(3074, '\1');
  for (size_t i = 2; i < record.size(); ++i) record[i] = static_cast<char>(i * i >> 3);
  write_file(folder_ / "cache/cifar-100-binary/train.bin", record + record);
  write_file(folder_ / "cache/cifar-100-binary/test.bin", record);
  const std::vector<int64_t> first{0};
  const Draw draw{.seed = 1, .epoch = 0, .augment = true};
  auto changed = [&](const DataSpec& spec) {
    const TaskData data = open_data(spec);
    EXPECT_EQ(data.train->classes(), 100);
    EXPECT_TRUE(at::equal(data.test->get(first, draw).data, data.test->get(first, {}).data)) << "test images stay";
    return !at::equal(data.train->get(first, draw).data, data.train->get(first, {}).data);
  };
  EXPECT_FALSE(changed({.name = "cifar100"}));
  EXPECT_TRUE(changed({.name = "cifar100", .augment = true}));
  EXPECT_FALSE(changed({.name = "cifar100", .augment = true, .augmentation = Augmentation{}}));
  EXPECT_TRUE(changed({.name = "cifar100", .augment = true, .augmentation = Augmentation{.cutout = 8}}));
  const TaskData mixed = open_data({.name = "cifar100", .augment = true, .augmentation = Augmentation{.mixup = 1}});
  EXPECT_EQ(mixed.train->get(first, draw).target.sizes(), (std::vector<int64_t>{1, 100}));
  const auto too_large = [](const DataSpec& spec) { return error_of([&] { open_data(spec); }); };
  EXPECT_THAT(too_large({.name = "cifar100", .augment = true, .augmentation = Augmentation{.cutout = 33}}),
              AllOf(HasSubstr("data.augmentation.cutout: 33"), HasSubstr("32x32")));
  EXPECT_THAT(too_large({.name = "cifar100", .augment = true, .augmentation = Augmentation{.padding = 32}}),
              HasSubstr("data.augmentation.padding: 32"));
  EXPECT_THAT(mixed.source,
              AllOf(HasSubstr("CIFAR-100, "), HasSubstr("2 of 50,000 training images, 1 of 10,000 test images")));
}

TEST_F(OpenImages, ResizesImagesInMemory) {
  const Shape grey{1, 32, 32};
  const TaskData digits = open_data({.name = "digits", .train_limit = 3, .test_limit = 2, .image_size = {32, 32}});
  EXPECT_EQ(digits.train->sample_shape(), grey);
  EXPECT_EQ(digits.test->get(std::vector<int64_t>{1}, {}).data.sizes(), (std::vector<int64_t>{1, 1, 32, 32}));
}

TEST_F(OpenImages, RefusesContradictorySettings) {
  write_classes("set", "train");
  const std::filesystem::path set = folder_ / "set";
  auto message = [](const DataSpec& spec) { return error_of([&] { open_data(spec); }); };
  EXPECT_THAT(message({.name = "folder"}), HasSubstr("data.path: missing"));
  EXPECT_THAT(message({.name = "folder", .path = folder_ / "none"}), HasSubstr("none: no such folder"));
  EXPECT_THAT(message({.name = "digits", .path = set}),
              AllOf(HasSubstr("data.path"), HasSubstr("digits is generated")));
  EXPECT_THAT(message({.name = "ptb", .image_size = {8, 8}}),
              HasSubstr("data.image_size: 8 x 8: ptb is not a set of images"));
  std::filesystem::create_directories(set / "val");
  EXPECT_THAT(message({.name = "folder",
                       .augment = true,
                       .path = set,
                       .image_size = {8, 6},
                       .augmentation = Augmentation{.padding = 6}}),
              AllOf(HasSubstr("data.augmentation.padding: 6"), HasSubstr("8x6")));
  EXPECT_THAT(message({.name = "folder", .path = set, .image_size = {8, 0}}), HasSubstr("data.image_size: 8 x 0"));
  EXPECT_THAT(message({.name = "folder", .path = set, .image_size = {8, 1 << 20}}), HasSubstr("sides are 1 to 16384"));
  EXPECT_THAT(message({.name = "mnist", .on_error = OnError::skip}), HasSubstr("data.on_error: \"skip\""));
  EXPECT_THAT(message({.name = "cifar10", .augmentation = Augmentation{.flip = true}}),
              HasSubstr("data.augmentation: given: augment = false"));
  EXPECT_THAT(message({.name = "camvid", .augment = true, .path = set, .augmentation = Augmentation{.mixup = 1}}),
              HasSubstr("data.augmentation.mixup: 1"));
}

TEST_F(OpenImages, SaysWhereToGetSetsThatItCannotDownload) {
  for (const char* name : {"tiny-imagenet", "camvid", "coco"}) {
    const KnownSet& set = known_set(name);
    const std::string missing = error_of([&] { open_data({.name = name}); });
    EXPECT_THAT(missing, AllOf(HasSubstr(set.title + ": not found"), HasSubstr(set.advice),
                               HasSubstr(set.folders.front()), HasSubstr("--data-dir")));
    EXPECT_THAT(error_of([&] { get_set(set, folder_ / "to"); }),
                AllOf(HasSubstr("cannot be downloaded by trireme"), HasSubstr(set.advice)));
  }
  EXPECT_FALSE(known_set("cifar100").sources.empty());
}

TEST(RealImages, TinyImagenetIsReadWhole) {
  const auto folder = real_set("tiny-imagenet-100");
  if (!folder) GTEST_SKIP() << "no tiny-imagenet-100: set TRIREME_DATA to the folder that holds it";
  const TaskData data = open_data({.name = "tiny-imagenet", .data_dir = *folder});
  EXPECT_EQ(data.train->size(), 10000);
  EXPECT_EQ(data.test->size(), 5000);
  EXPECT_EQ(data.train->classes(), 100);
  const Samples samples = data.train->get(std::vector<int64_t>{0, 99, 100, 9999}, {});
  EXPECT_TRUE(at::equal(samples.target, at::tensor({0, 0, 1, 99}, at::kLong)));
  EXPECT_EQ(samples.data.sizes(), (std::vector<int64_t>{4, 3, 64, 64}));
  EXPECT_GT(samples.data.std().item<double>(), 0.3);
}

TEST(RealImages, CamvidHasTheClassesThatWereCounted) {
  const auto folder = real_set("camvid");
  if (!folder) GTEST_SKIP() << "no CamVid: set TRIREME_DATA to the folder that holds camvid/";
  const TaskData data = open_data({.name = "camvid", .data_dir = *folder});
  EXPECT_EQ(data.train->size(), 367);
  EXPECT_EQ(data.test->size(), 233);
  EXPECT_EQ(data.train->sample_shape(), (Shape{3, 120, 160}));
  const at::Tensor first = data.train->get(std::vector<int64_t>{0}, {}).target;
  // Counted with Pillow in trainannot/0001TP_006690.png.
  EXPECT_EQ((first == -1).sum().item<int64_t>(), 892);
  EXPECT_EQ((first == 3).sum().item<int64_t>(), 1789);
  EXPECT_EQ((first == 8).sum().item<int64_t>(), 4536);
}

}  // namespace
}  // namespace trireme
