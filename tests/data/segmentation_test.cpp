#include "data/images/segmentation_dataset.h"

#include <ATen/ATen.h>

#include <numeric>
#include <vector>

#include "data/images/mask_folder.h"
#include "data/open.h"
#include "image_writer.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Normalization kBytes{{0, 0, 0}, {1.0 / 255, 1.0 / 255, 1.0 / 255}};

std::vector<int64_t> first(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Images whose pixels are 20 times their class, and their masks. Pixels of class 11 have no label.
class Masks : public ::testing::Test {
 protected:
  void pair(const std::string& split, const std::string& name, const std::vector<uint8_t>& classes, int width,
            int height) {
    std::vector<uint8_t> pixels;
    for (uint8_t c : classes) pixels.insert(pixels.end(), 3, static_cast<uint8_t>(20 * c + 20));
    write_file(folder_ / (split + "/" + name + ".png"), rgb_png(width, height, pixels));
    write_file(folder_ / (split + "annot/" + name + ".png"), grey_png(width, height, classes));
  }
  void random_pair(const std::string& split, const std::string& name, uint32_t seed) {
    std::vector<uint8_t> classes = random_bytes(8 * 6, seed);
    for (uint8_t& c : classes) c = static_cast<uint8_t>(c % 12);
    pair(split, name, classes, 8, 6);
  }
  DataSpec spec() const { return {.name = "camvid", .path = folder_.path()}; }

  TemporaryFolder folder_;
};

TEST_F(Masks, BecomeClassesOfPixels) {
  pair("train", "b", {0, 1, 2, 3, 10, 11}, 3, 2);
  pair("train", "a", {11, 11, 11, 5, 5, 5}, 3, 2);
  pair("test", "t", {0, 1, 2, 3, 4, 5}, 3, 2);
  const TaskData data = open_data(spec());
  EXPECT_EQ(data.train->task(), LearningTask::segmentation);
  EXPECT_EQ(data.train->classes(), 11);
  EXPECT_EQ(data.train->sample_shape(), (Shape{3, 2, 3})) << "the first image's size";
  EXPECT_EQ(data.train->target_shape(), (Shape{2, 3}));
  EXPECT_TRUE(data.train->decodes());
  EXPECT_EQ(data.source, "CamVid, " + folder_.path().string());
  const Samples samples = data.train->get(first(2), {});
  EXPECT_EQ(samples.target.dtype(), at::kLong);
  EXPECT_TRUE(
      at::equal(samples.target, at::tensor({-1, -1, -1, 5, 5, 5, 0, 1, 2, 3, 10, -1}, at::kLong).view({2, 2, 3})));
  EXPECT_NEAR(samples.data[1][0][0][2].item<double>(), (60 / 255.0 - 0.485) / 0.229, 1e-5);
  EXPECT_EQ(open_data({.name = "camvid", .train_limit = 1, .path = folder_.path()}).source,
            "CamVid, " + folder_.path().string() + ", 1 of 2 training images, 1 test image");
}

TEST_F(Masks, MayBePalettes) {
  pair("train", "a", {0, 1, 2, 3}, 2, 2);
  const PngSpec palette{.width = 2,
                        .height = 2,
                        .colour = PNG_COLOR_TYPE_PALETTE,
                        .bits = 4,
                        .rows = {0xb2, 0x09},
                        .palette = random_bytes(48, 1)};
  write_file(folder_ / "trainannot/a.png", png_bytes(palette));
  pair("test", "t", {0, 0, 0, 0}, 2, 2);
  const Samples samples = open_data(spec()).train->get(first(1), {});
  EXPECT_TRUE(at::equal(samples.target, at::tensor({-1, 2, 0, 9}, at::kLong).view({1, 2, 2})));
}

TEST_F(Masks, MoveWithTheirImages) {
  for (int i = 0; i < 6; ++i) random_pair("train", std::to_string(i), static_cast<uint32_t>(i));
  const auto masks = std::make_shared<MaskFolder>(folder_.path(), "train", mask_classes(11, {11}));
  const SegmentationDataset set(masks, first(6), 11, {{6, 8}, 3, kBytes, {.padding = 2, .flip = true}});
  const at::Tensor plain = set.get(first(6), {}).data;
  int64_t ignored = 0, changed = 0;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Samples samples = set.get(first(6), {.seed = 2, .epoch = epoch, .augment = true});
    changed += !at::equal(samples.data, plain);
    // 0 is padding, other pixels are 20 * (class + 1).
    const at::Tensor shown = at::round(samples.data.select(1, 0)).to(at::kLong);
    const at::Tensor expected =
        at::where((shown == 0).logical_or(shown == 240), at::full_like(shown, -1), shown / 20 - 1);
    EXPECT_TRUE(at::equal(samples.target, expected.to(at::kLong))) << epoch;
    ignored += (shown == 0).sum().item<int64_t>();
    const Samples one = set.get(std::vector<int64_t>{4}, {.seed = 2, .epoch = epoch, .augment = true});
    EXPECT_TRUE(at::equal(one.data[0], samples.data[4])) << "alike in any batch";
    EXPECT_TRUE(at::equal(one.target[0], samples.target[4]));
  }
  EXPECT_EQ(changed, 20);
  EXPECT_GT(ignored, 0);
}

TEST_F(Masks, AreStretchedToOneSize) {
  pair("train", "a", {0, 1, 2, 3}, 2, 2);
  pair("test", "t", {0, 0, 0, 0}, 2, 2);
  DataSpec larger = spec();
  larger.image_size = {4, 6};
  const Samples samples = open_data(larger).train->get(first(1), {});
  EXPECT_EQ(samples.data.sizes(), (std::vector<int64_t>{1, 3, 4, 6}));
  const at::Tensor rows =
      at::tensor({0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 3}, at::kLong);
  EXPECT_TRUE(at::equal(samples.target[0], rows.view({4, 6})));
}

TEST_F(Masks, ThatDoNotFitAreNamed) {
  for (const char* name : {"a", "b", "c", "d", "e"}) random_pair("train", name, 1);
  random_pair("test", "t", 2);
  std::vector<uint8_t> classes(48, 3);
  classes[2 * 8 + 5] = 12;
  write_file(folder_ / "trainannot/b.png", grey_png(8, 6, classes));
  write_file(folder_ / "trainannot/c.png", grey_png(6, 8, std::vector<uint8_t>(48, 3)));
  write_file(folder_ / "trainannot/d.png", rgb_png(8, 6, random_bytes(144, 3)));
  std::filesystem::remove(folder_ / "trainannot/e.png");
  const auto whole = std::make_shared<MaskFolder>(folder_.path(), "train", mask_classes(11, {11}));
  const SegmentationDataset set(whole, first(5), 11, {{6, 8}, 3, kBytes, {}});
  auto message = [&](int64_t i) { return error_of([&] { set.get(std::vector<int64_t>{i}, {}); }); };
  auto by_header = [&](int64_t i) { return error_of([&] { whole->check_headers(i); }); };
  const std::string masks = (folder_ / "trainannot/").string();
  EXPECT_THAT(error_of([&] { open_data(spec()); }), AllOf(HasSubstr(masks + "c.png: a mask of 6x8 pixels"),
                                                          HasSubstr("has 8x6, the first of 3 broken samples;")));
  for (int64_t i : {0, 1}) EXPECT_NO_THROW(whole->check_headers(i)) << "a header has no pixels";
  auto without_advice = [](const std::string& line) { return line.substr(0, line.find(';')); };
  for (int64_t i : {2, 3, 4}) EXPECT_EQ(without_advice(by_header(i)), without_advice(message(i)));
  EXPECT_THAT(message(1), AllOf(HasSubstr(masks + "b.png: number 12 in row 2, column 5"),
                                HasSubstr("classes are 0 to 10, and 11 means no class"), HasSubstr("on_error")));
  EXPECT_THAT(message(2), AllOf(HasSubstr(masks + "c.png: a mask of 6x8 pixels"),
                                HasSubstr((folder_ / "train/c.png").string() + " has 8x6")));
  EXPECT_THAT(message(3), HasSubstr(masks + "d.png: a mask of 3 channels"));
  EXPECT_THAT(message(4), HasSubstr(masks + "e.png: no such file: masks are read from files that end in .png;"));
  write_file(folder_ / "trainannot/e.bmp", "a bitmap");
  EXPECT_THAT(message(4), HasSubstr("files that end in .png, e.bmp is not"));
  EXPECT_EQ(without_advice(by_header(4)), without_advice(message(4)));
  DataSpec skipping = spec();
  skipping.on_error = OnError::skip;
  const TaskData left = open_data(skipping);
  EXPECT_EQ(left.train->size(), 1);
  EXPECT_THAT(left.source, HasSubstr(", 4 of 5 training images left out (first: trainannot/b.png: number 12"));
  EXPECT_TRUE(at::equal(left.train->get(first(1), {}).target, set.get(first(1), {}).target));
  write_file(folder_ / "train/a.png", "no image");
  EXPECT_THAT(error_of([&] { open_data(skipping); }), HasSubstr("none of 5 training images can be read"));
  random_pair("train", "c", 3);
  const TaskData third = open_data(skipping);
  EXPECT_EQ(third.train->size(), 1);
  EXPECT_EQ(third.train->sample_shape(), (Shape{3, 6, 8})) << "the first image's that is not broken";
}

TEST_F(Masks, NeedTheirFolders) {
  EXPECT_THAT(error_of([&] { open_data(spec()); }), HasSubstr("train: no such folder"));
  std::filesystem::create_directories(folder_ / "train");
  std::filesystem::create_directories(folder_ / "trainannot");
  EXPECT_THAT(error_of([&] { open_data(spec()); }), HasSubstr("train: no images"));
}

TEST_F(Masks, OfCocoComeFromPolygons) {
  const std::string images = R"("images": [{"id": 1, "file_name": "a.png", "height": 6, "width": 8}],)";
  const std::string categories = R"("categories": [{"id": 5, "name": "thing"}, {"id": 9, "name": "other"}])";
  const std::string annotation =
      R"({"id": 3, "image_id": 1, "category_id": 9, "area": 12, "iscrowd": 0, "segmentation": [[0, 0, 4, 0, 4, 3, 0, 3]]})";
  const std::string text = "{" + images + R"("annotations": [)" + annotation + "]," + categories + "}";
  for (const char* split : {"train2017", "val2017"}) {
    write_file(folder_ / ("coco/annotations/instances_" + std::string(split) + ".json"), text);
    write_file(folder_ / ("coco/" + std::string(split) + "/a.png"), rgb_png(8, 6, std::vector<uint8_t>(144, 10)));
  }
  const DataSpec coco{.name = "coco", .data_dir = folder_.path(), .image_size = {6, 8}};
  const TaskData data = open_data(coco);
  EXPECT_EQ(data.train->classes(), 3);
  EXPECT_EQ(data.source, "COCO, " + (folder_ / "coco").string() + ", 2 categories and background");
  at::Tensor expected = at::zeros({6, 8}, at::kLong);
  expected.slice(0, 0, 3).slice(1, 0, 4).fill_(2);
  EXPECT_TRUE(at::equal(data.train->get(first(1), {}).target[0], expected));
  EXPECT_TRUE(at::equal(data.test->get(first(1), {}).target[0], expected));

  write_file(folder_ / "coco/val2017/a.png", rgb_png(6, 8, std::vector<uint8_t>(144, 10)));
  EXPECT_THAT(error_of([&] { data.test->get(first(1), {}); }),
              AllOf(HasSubstr("instances_val2017.json: image \"a.png\": a mask of 8x6 pixels"), HasSubstr("has 6x8")));
  const std::string fewer = "{" + images + R"("annotations": [], "categories": [{"id": 5, "name": "thing"}]})";
  write_file(folder_ / "coco/annotations/instances_val2017.json", fewer);
  EXPECT_THAT(error_of([&] { open_data(coco); }), HasSubstr("instances_val2017.json: other categories"));
  std::filesystem::remove_all(folder_ / "coco/val2017");
  EXPECT_THAT(error_of([&] { open_data(coco); }), HasSubstr("val2017: no such folder"));
}

}  // namespace
}  // namespace trireme
