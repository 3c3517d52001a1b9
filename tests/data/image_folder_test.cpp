#include "data/images/image_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "data/images/image_loader.h"
#include "data/open.h"
#include "image_writer.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Normalization kBytes{{0, 0, 0}, {1.0 / 255, 1.0 / 255, 1.0 / 255}};

std::string plain_png(uint8_t value, int width = 4, int height = 4) {
  return rgb_png(width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height), value));
}

std::vector<std::string> paths_of(const ImageFolder& folder) {
  std::vector<std::string> paths;
  for (const auto& file : folder.files) paths.push_back(file.path + ":" + std::to_string(file.label));
  return paths;
}

std::vector<int64_t> first(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class ImageFolders : public ::testing::Test {
 protected:
  void image(const std::string& path, uint8_t value = 1) { write_file(folder_ / path, plain_png(value)); }
  TemporaryFolder folder_;
};

TEST_F(ImageFolders, AreListedByClassAndName) {
  for (const char* path :
       {"zebra/b.png", "zebra/a.JPEG", "ant/images/2.jpg", "ant/x.png", "ant/images/10.jpg", "Cat/1.png"})
    image(path);
  write_file(folder_ / "ant/boxes.txt", "no image");
  write_file(folder_ / "words.txt", "no class");
  const ImageFolder train = list_image_folder(folder_.path());
  EXPECT_THAT(train.classes, ElementsAre("Cat", "ant", "zebra"));
  EXPECT_THAT(paths_of(train), ElementsAre("Cat/1.png:0", "ant/x.png:1", "ant/images/10.jpg:1", "ant/images/2.jpg:1",
                                           "zebra/a.JPEG:2", "zebra/b.png:2"));
  EXPECT_EQ(train.file(1), folder_ / "ant/x.png");
  image("../" + folder_.path().filename().string() + "/test/zebra/1.png");
  const ImageFolder test = list_image_folder(folder_ / "test", train.classes);
  EXPECT_THAT(paths_of(test), ElementsAre("zebra/1.png:2")) << "in the training images' classes";
}

TEST_F(ImageFolders, MayListTheirClassesInAFile) {
  write_file(folder_ / "val_annotations.txt", "val_1.JPEG\tn02\t0\t1\t2\t3\r\nval_0.JPEG\tn01\n");
  image("images/val_0.JPEG");
  EXPECT_THAT(paths_of(list_image_folder(folder_.path(), {"n01", "n02"})),
              ElementsAre("images/val_1.JPEG:1", "images/val_0.JPEG:0"));
  EXPECT_THAT(error_of([&] {
                list_image_folder(folder_.path(), {"n01", "n03"});
              }),
              HasSubstr("val_annotations.txt:1: class \"n02\""));
  write_file(folder_ / "val_annotations.txt", "val_1.JPEG\n");
  EXPECT_THAT(error_of([&] { list_image_folder(folder_.path(), {"n01"}); }),
              HasSubstr("val_annotations.txt:1: no tab"));
}

TEST_F(ImageFolders, NameMissingFoldersAndImages) {
  EXPECT_THAT(error_of([&] { list_image_folder(folder_ / "none"); }),
              AllOf(HasSubstr("none: no such folder"), HasSubstr("train/<class>")));
  EXPECT_THAT(error_of([&] { list_image_folder(folder_.path()); }), HasSubstr("no folders in it"));
  write_file(folder_ / "cat/notes.txt", "");
  EXPECT_THAT(error_of([&] { list_image_folder(folder_.path()); }), HasSubstr("cat: no images"));
  image("cat/1.png");
  EXPECT_THAT(error_of([&] { list_image_folder(folder_.path(), {"dog"}); }), HasSubstr("cat: class \"cat\""));
  std::filesystem::create_directory_symlink("..", folder_ / "cat/up");
  EXPECT_THAT(error_of([&] { list_image_folder(folder_.path()); }),
              AllOf(HasSubstr("cat: cannot be listed"), HasSubstr("links")));
}

TEST_F(ImageFolders, OneClassIsNoClassification) {
  for (const char* path : {"train/cat/1.png", "val/cat/1.png"}) image(path);
  EXPECT_THAT(error_of([&] { open_data({.name = "folder", .path = folder_.path()}); }),
              AllOf(HasSubstr("train: one class, \"cat\""), HasSubstr("at least two")));
}

TEST_F(ImageFolders, LinksThatLeadNowhereAreBrokenImages) {
  for (const char* path : {"train/a/1.png", "train/b/1.png", "val/a/1.png"}) image(path);
  std::filesystem::create_symlink("gone.png", folder_ / "train/a/2.png");
  const TaskData data =
      open_data({.name = "folder", .path = folder_.path(), .image_size = {8, 8}, .on_error = OnError::skip});
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_THAT(data.source, HasSubstr("1 of 3 training images left out (first: a/2.png: no such file"));
}

TEST_F(ImageFolders, ImagesWithOtherEndingsAreCounted) {
  for (const char* path : {"train/a/1.png", "train/b/1.jpeg", "val/a/1.png"}) image(path);
  const DataSpec spec{.name = "folder", .path = folder_.path(), .image_size = {8, 8}};
  EXPECT_THAT(open_data(spec).source, Not(HasSubstr("left out")));
  for (const char* path : {"train/a/2.gif", "train/b/2.webp", "train/b/3.GIF", "train/b/notes.txt", "val/a/x.bmp"})
    write_file(folder_ / path, "GIF89a");
  const TaskData data = open_data(spec);
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_THAT(data.source,
              AllOf(HasSubstr(", 3 images that end in .gif, .webp (.jpg, .jpeg and .png are read) left out of train"),
                    HasSubstr(", 1 image that ends in .bmp (.jpg, .jpeg and .png are read) left out of val")));
  write_file(folder_ / "train/c/1.gif", "GIF89a");
  EXPECT_THAT(error_of([&] { open_data(spec); }), HasSubstr("c: no images: it has 1 image that ends in .gif"));
}

TEST_F(ImageFolders, KeepAsManyOfEachClass) {
  for (const char* path : {"a/1.png", "a/2.png", "a/3.png", "b/1.png", "c/1.png", "c/2.png"}) image(path);
  ImageFolder folder = list_image_folder(folder_.path());
  folder.keep_evenly(0);
  EXPECT_EQ(folder.count(), 6);
  folder.keep_evenly(4);
  EXPECT_THAT(paths_of(folder), ElementsAre("a/1.png:0", "a/2.png:0", "b/1.png:1", "c/1.png:2"));
  folder.keep_evenly(2);
  EXPECT_THAT(paths_of(folder), ElementsAre("a/1.png:0", "b/1.png:1"));
}

TEST_F(ImageFolders, GiveSamplesOfOneSizeAndThreeChannels) {
  std::vector<uint8_t> ramp(12 * 6);
  for (size_t p = 0; p < ramp.size(); ++p) ramp[p] = static_cast<uint8_t>(20 * (p % 12));
  write_file(folder_ / "a/grey.png", grey_png(12, 6, ramp));
  write_file(folder_ / "b/colour.jpg",
             jpeg_bytes({.width = 16, .height = 16, .pixels = std::vector<uint8_t>(768, 77)}));
  image("b/small.png", 9);
  const FolderDataset set(list_image_folder(folder_.path()), {{6, 6}, 3, kBytes});
  EXPECT_EQ(set.sample_shape(), (Shape{3, 6, 6}));
  EXPECT_EQ(set.classes(), 2);
  EXPECT_TRUE(set.decodes());
  const Samples samples = set.get(first(3), {});
  ASSERT_EQ(samples.data.sizes(), (std::vector<int64_t>{3, 3, 6, 6}));
  EXPECT_TRUE(samples.data.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(samples.target, at::tensor({0, 1, 1}, at::kLong)));
  for (int64_t c = 0; c < 3; ++c)  // the middle 6 of 12 columns
    for (int64_t x = 0; x < 6; ++x) EXPECT_NEAR(samples.data[0][c][2][x].item<float>(), 20 * float(x + 3), 1e-3);
  EXPECT_NEAR(samples.data[1].mean().item<float>(), 77, 1);
  EXPECT_NEAR(samples.data[2].std().item<float>(), 0, 1e-3);
}

TEST_F(ImageFolders, ServeManyThreadsAndAnyBatch) {
  for (int i = 0; i < 12; ++i) {
    const auto pixels = random_bytes(static_cast<size_t>(3 * 30 * (40 + i)), static_cast<uint32_t>(i));
    write_file(folder_ / ("a/" + std::to_string(i) + ".jpg"),
               jpeg_bytes({.width = 40 + i, .height = 30, .pixels = pixels}));
  }
  const FolderDataset set(list_image_folder(folder_.path()),
                          {{16, 16}, 3, kBytes, {.padding = 2, .flip = true, .resized_crop = RandomResizedCrop{}}});
  const Draw draw{.seed = 1, .epoch = 4, .augment = true};
  const Samples whole = set.get(first(12), draw);
  std::vector<at::Tensor> got(4);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < got.size(); ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 5; ++round)
          got[t] = set.get(std::vector<int64_t>{static_cast<int64_t>(t), 11}, draw).data;
      });
  }
  for (size_t t = 0; t < got.size(); ++t) {
    EXPECT_TRUE(at::equal(got[t][0], whole.data[static_cast<int64_t>(t)]));
    EXPECT_TRUE(at::equal(got[t][1], whole.data[11]));
  }
}

TEST_F(ImageFolders, DecodeLargeImagesSmallWithoutBeingFarOff) {
  const auto pixels = smooth_pixels(400, 300, 3);
  write_file(folder_ / "a.jpg", jpeg_bytes({.width = 400, .height = 300, .pixels = pixels}));
  Image buffer;
  auto rendered = [&](const ViewedImage& image) {
    std::vector<float> out(3 * 24 * 24);
    std::vector<uint8_t> scratch;
    render_image(image.pixels, image.view, {24, 24}, normalization_table(kBytes), out.data(), scratch);
    return out;
  };
  const Image original{{300, 400}, 3, pixels};
  for (const Rectangle part : {Rectangle{0, 0, 300, 400}, {11, 33, 200, 210}, {0, 0, 60, 50}}) {
    const SampleView view{.box = part, .full = {24, 24}, .cut = {}};
    const ViewedImage loaded = load_image(
        folder_ / "a.jpg", 3, [&](ImageSize) { return view; }, buffer);
    const int64_t reduced = original.size.height / loaded.pixels.size.height;
    EXPECT_EQ(reduced, part.height >= 200 ? 4 : 1);
    const auto got = rendered(loaded), exact = rendered({original.view(), view});
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], exact[i], 4) << "part of height " << part.height;
  }
}

/// The last of the nine reduced columns stands for five columns of the image: as wide as the others, it would shift the
/// sample's pixels by up to three columns.
TEST_F(ImageFolders, DecodeLargeImagesSmallWithoutStretchingThem) {
  constexpr int kWidth = 69, kHeight = 67;
  std::vector<uint8_t> pixels;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (const int value : {3 * x, 3 * y, x + y}) pixels.push_back(uint8_t(value));
  write_file(folder_ / "a.jpg", jpeg_bytes({.width = kWidth, .height = kHeight, .pixels = pixels}));
  const auto rendered = [&](const ViewedImage& image) {
    std::vector<float> out(3 * 4 * 4);
    std::vector<uint8_t> scratch;
    render_image(image.pixels, image.view, {4, 4}, normalization_table(kBytes), out.data(), scratch);
    return out;
  };
  Image buffer;
  const SampleView view{.box = {0, 0, kHeight, kWidth}, .full = {4, 4}, .cut = {}};
  const ViewedImage loaded = load_image(
      folder_ / "a.jpg", 3, [&](ImageSize) { return view; }, buffer);
  ASSERT_EQ(loaded.pixels.size, (ImageSize{9, 9}));
  const Image original{{kHeight, kWidth}, 3, pixels};
  const auto got = rendered(loaded), exact = rendered({original.view(), view});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], exact[i], 6);
}

TEST_F(ImageFolders, SizesAreReadBehindLongHeaders) {
  const std::string jpeg = jpeg_bytes({.width = 70, .height = 50, .pixels = random_bytes(70 * 50 * 3, 1)});
  const std::string thumbnail =
      std::string("\xff\xe1\xff\xff", 4) + std::string(65533, 'x');  // a segment that begins with its length
  write_file(folder_ / "a.jpg", jpeg.substr(0, 2) + thumbnail + thumbnail + jpeg.substr(2));
  write_file(folder_ / "b.jpg", jpeg.substr(0, jpeg.size() / 2));
  for (const char* name : {"a.jpg", "b.jpg"}) EXPECT_EQ(size_of_image(folder_ / name), (ImageSize{50, 70})) << name;
  write_file(folder_ / "c.jpg", jpeg.substr(0, 2) + thumbnail);
  EXPECT_THAT(error_of([&] { size_of_image(folder_ / "c.jpg"); }), HasSubstr("damaged JPEG at byte 65539 of 65539"));
}

TEST_F(ImageFolders, FailOrSkipBrokenFiles) {
  for (const char* path :
       {"train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png", "val/a/1.png", "val/b/1.png"})
    image(path);
  const std::string jpeg = jpeg_bytes({.width = 64, .height = 64, .pixels = random_bytes(64 * 64 * 3, 1)});
  write_file(folder_ / "train/b/1.png", jpeg.substr(0, jpeg.size() - 700));
  write_file(folder_ / "train/b/3.png", "no image at all");
  std::filesystem::create_symlink("gone.png", folder_ / "train/b/4.png");
  const DataSpec spec{.name = "folder", .path = folder_.path(), .image_size = {8, 8}};
  EXPECT_THAT(error_of([&] { open_data(spec); }),
              AllOf(HasSubstr((folder_ / "train/b/3.png").string() +
                              ": neither JPEG nor PNG: it starts with the byte 0x6e, the first of 2 broken"),
                    HasSubstr("data.on_error = \"skip\"")));
  std::filesystem::remove(folder_ / "train/b/3.png");
  EXPECT_THAT(error_of([&] { open_data(spec); }),
              AllOf(HasSubstr("train/b/4.png: no such file"), HasSubstr("data.on_error = \"skip\"")));
  std::filesystem::remove(folder_ / "train/b/4.png");
  TaskData data = open_data(spec);
  EXPECT_EQ(data.train->size(), 4);
  EXPECT_EQ(data.source, "images by folder, " + folder_.path().string() + ", 2 classes");
  EXPECT_THAT(error_of([&] { data.train->get(first(4), {}); }),
              AllOf(HasSubstr((folder_ / "train/b/1.png").string() + ": damaged JPEG at byte"),
                    HasSubstr("Premature end of JPEG file"), HasSubstr("data.on_error = \"skip\"")))
      << "only decoding the whole file finds it";
  write_file(folder_ / "train/b/3.png", "no image at all");
  data = open_data({.name = "folder", .path = folder_.path(), .image_size = {8, 8}, .on_error = OnError::skip});
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_THAT(data.source, HasSubstr(", 2 of 5 training images left out (first: b/1.png: damaged JPEG at byte"));
  EXPECT_TRUE(at::equal(data.train->get(first(3), {}).target, at::tensor({0, 0, 1}, at::kLong)));
  for (const char* path : {"val/a/1.png", "val/b/1.png"}) write_file(folder_ / path, "");
  EXPECT_THAT(error_of([&] { open_data({.name = "folder", .path = folder_.path(), .on_error = OnError::skip}); }),
              AllOf(HasSubstr("val: none of 2 test images can be read"), HasSubstr("an empty file")));
}

}  // namespace
}  // namespace trireme
