#include "data/set_shape.h"

#include <cstdlib>

#include "data/catalogue.h"
#include "data/open.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AbsentData : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  ScopedVariable data_{"TRIREME_DATA", std::nullopt};
  ScopedVariable cache_{"TRIREME_CACHE", (folder_ / "cache").string()};
};

TEST_F(AbsentData, HasTheKnownShape) {
  const TaskData data = open_data_or_shape({.name = "camvid", .train_limit = 10, .image_size = {60, 80}});
  EXPECT_FALSE(has_samples(*data.train));
  EXPECT_EQ(data.train->size(), 10);
  EXPECT_EQ(data.test->size(), 233);
  EXPECT_EQ(data.train->sample_shape(), (Shape{3, 60, 80}));
  EXPECT_EQ(data.train->target_shape(), (Shape{60, 80}));
  EXPECT_EQ(data.train->classes(), 11);
  EXPECT_TRUE(data.train->decodes());
  EXPECT_EQ(data.source, "CamVid is not here; assumed: 10 training samples of [3, 60, 80], 11 classes");
  EXPECT_THAT(error_of([&] { data.train->get(std::vector<int64_t>{0}, {}); }, Blame::run),
              HasSubstr("data that are here"));
}

TEST_F(AbsentData, ImagesHaveTheStatedSize) {
  EXPECT_EQ(open_data_or_shape({.name = "cifar10", .image_size = {16, 24}}).train->sample_shape(), (Shape{3, 16, 24}));
  EXPECT_EQ(open_data_or_shape({.name = "cifar100"}).train->sample_shape(), (Shape{3, 32, 32}));
}

TEST_F(AbsentData, PairsAndStreamsHaveTheirTargets) {
  const TaskData pairs = open_data_or_shape({.name = "multi30k", .sequence = 20});
  EXPECT_EQ(pairs.train->sample_shape(), Shape{40});
  EXPECT_EQ(pairs.train->target_shape(), Shape{20});
  EXPECT_EQ(dynamic_cast<const PaddedSet&>(*pairs.train).padded_parts(), (PartLengths{20, 20}));
  EXPECT_EQ(pairs.train->classes(), 8000);
  const TaskData stream = open_data_or_shape({.name = "ptb"});
  EXPECT_TRUE(stream.train->is_stream());
  EXPECT_EQ(stream.train->size(), (929589 - 1) / 35);
  EXPECT_EQ(stream.train->vocabulary(), 10000);
}

TEST_F(AbsentData, OwnFilesNeedTheirShapeStated) {
  DataSpec spec{.name = "tensors", .train_files = {folder_ / "x.npz"}, .test_files = {folder_ / "y.npz"}};
  EXPECT_THAT(error_of([&] { open_data_or_shape(spec); }),
              AllOf(HasSubstr("x.npz: not found"), HasSubstr("their task, sample, classes, train must be stated"),
                    HasSubstr("data.task = \"...\" and data.shape = { sample = [...], classes = ..., train = ... }")));
  spec.tensors.task = LearningTask::segmentation;
  spec.stated = {.sample = {3, 8, 9}, .classes = 4, .train = 50};
  const TaskData data = open_data_or_shape(spec);
  EXPECT_EQ(data.train->target_shape(), (Shape{8, 9}));
  EXPECT_THAT(data.source, HasSubstr("as far as stated from data.shape: 50 training samples of [3, 8, 9], 4 classes"));
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("x.npz"));
}

TEST_F(AbsentData, ATextNeedsNeitherFilesNorAVocabularyOfItsOwn) {
  DataSpec spec{.name = "text", .sequence = 2048};
  EXPECT_THAT(error_of([&] { open_data_or_shape(spec); }),
              AllOf(HasSubstr("data.train: missing"), HasSubstr("for predictions data.shape is enough")));
  spec.stated = {.train = 1000};
  EXPECT_THAT(error_of([&] { open_data_or_shape(spec); }), HasSubstr("their vocabulary must be stated"));
  spec.model_vocabulary = 51200;
  const TaskData data = open_data_or_shape(spec);
  EXPECT_EQ(data.train->vocabulary(), 51200);
  EXPECT_EQ(data.train->classes(), 51200);
  EXPECT_EQ(data.train->sample_shape(), Shape{2048});
  EXPECT_EQ(
      data.source,
      "data set \"text\" is not here; assumed, as far as stated from data.shape: 1,000 training samples of [2048], "
      "51,200 different tokens, as the model knows");
  spec.stated->vocabulary = 50257;
  EXPECT_EQ(open_data_or_shape(spec).train->vocabulary(), 50257) << "what is stated counts more";
  EXPECT_EQ(open_data_or_shape({.name = "ptb", .model_vocabulary = 51200}).train->vocabulary(), 10000)
      << "what is known too";
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("data.train: missing"));
}

TEST_F(AbsentData, WhatIsThereIsOpenedAndMustBeAsStated) {
  DataSpec spec{.name = "digits", .train_limit = 20, .test_limit = 5, .stated = StatedShape{.sample = {1, 28, 28}}};
  EXPECT_TRUE(has_samples(*open_data_or_shape(spec).train));
  spec.stated = {.classes = 9};
  EXPECT_THAT(error_of([&] { open_data(spec); }), AllOf(HasSubstr("data.shape.classes: 9"), HasSubstr("has 10")));
  spec.stated = {.train = 20};  // the set has 60,000; a stated number other than the limit is allowed
  EXPECT_EQ(open_data(spec).train->size(), 20);
}

TEST(Complete, TakesWhatIsStatedFirst) {
  SetShape shape{.task = LearningTask::translation, .padded = {48, 48}, .tokens = true};
  EXPECT_THAT(complete(shape, {}), ElementsAre("sample", "vocabulary", "train"));
  EXPECT_TRUE(complete(shape, {.sample = {30}, .vocabulary = 9, .train = 4}).empty());
  EXPECT_EQ(shape.target, Shape{15});
  EXPECT_EQ(shape.classes, 9);
}

/// The shape that the catalogue states for a set is the shape of its files.
TEST(RealShapes, AreThoseOfTheFiles) {
  const char* named = std::getenv("TRIREME_DATA");
  const std::filesystem::path root = named && *named ? named : TRIREME_TEST_REAL_DATA;
  int compared = 0;
  for (const char* name : {"mnist", "adult", "california-housing", "ptb", "sst2"}) {
    const DataSpec spec{.name = name, .path = root / name};
    if (!std::filesystem::is_directory(*spec.path)) continue;
    SetShape shape = known_set(name).shape(spec);
    EXPECT_TRUE(complete(shape, {}).empty()) << name;
    const TaskData known = without_samples(shape, ""), real = open_data(spec);
    for (const auto& [a, b] : {std::pair{known.train, real.train}, {known.test, real.test}}) {
      EXPECT_EQ(a->size(), b->size()) << name;
      EXPECT_EQ(a->sample_shape(), b->sample_shape()) << name;
      EXPECT_EQ(a->target_shape(), b->target_shape()) << name;
      EXPECT_EQ(a->task(), b->task()) << name;
      EXPECT_EQ(a->classes(), b->classes()) << name;
      EXPECT_EQ(a->vocabulary(), b->vocabulary()) << name;
      EXPECT_EQ(a->is_stream(), b->is_stream()) << name;
      EXPECT_EQ(a->decodes(), b->decodes()) << name;
    }
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no data sets: set TRIREME_DATA to the folder that holds them";
}

}  // namespace
}  // namespace trireme
