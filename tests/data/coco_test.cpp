#include "data/images/coco/coco.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "data/images/coco/coco_mask.h"
#include "data/images/coco/coco_masks.h"
#include "image_writer.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Image empty_mask(int64_t height, int64_t width) {
  return {{height, width}, 1, std::vector<uint8_t>(static_cast<size_t>(height * width), 0)};
}

/// Run lengths of a mask, column by column, straight from the definition.
std::vector<uint32_t> runs_of(const Image& mask) {
  std::vector<uint32_t> counts{0};
  bool inside = false;
  for (int64_t x = 0; x < mask.size.width; ++x)
    for (int64_t y = 0; y < mask.size.height; ++y) {
      const bool now = mask.view().row(y)[x] != 0;
      if (now != inside) counts.push_back(0);
      inside = now;
      ++counts.back();
    }
  return counts;
}

/// Writes the compressed format: groups of five bits, the lowest first, until the rest repeats the sign bit.
std::string compressed(const std::vector<uint32_t>& counts) {
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    int64_t rest = int64_t{counts[i]} - (i > 2 ? int64_t{counts[i - 2]} : 0);
    for (bool more = true; more;) {
      const int64_t group = rest & 31;
      rest >>= 5;
      more = (group & 16) != 0 ? rest != -1 : rest != 0;
      text += static_cast<char>('0' + group + (more ? 32 : 0));
    }
  }
  return text;
}

TEST(RunLengths, AreReadAsWorkedOutByHand) {
  // 5 is '5'. 100 = 3 * 32 + 4: '0' + 4 + 32 = 'T', then '3'. From the fourth on, a number is written as the difference
  // to the number two before it.
  EXPECT_THAT(parse_run_lengths("5T33", "a"), ElementsAre(5, 100, 3));
  EXPECT_THAT(parse_run_lengths("5T332", "a"), ElementsAre(5, 100, 3, 102));
  EXPECT_THAT(parse_run_lengths("5T33N", "a"), ElementsAre(5, 100, 3, 98));  // 'N' - '0' = 30: 30 - 32 = -2
  EXPECT_THAT(parse_run_lengths("", "a"), ElementsAre());
}

TEST(RunLengths, AreReadBackFromEitherFormat) {
  const uint32_t seed = 11;
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    Image mask = empty_mask(1 + static_cast<int64_t>(random() % 60), 1 + static_cast<int64_t>(random() % 60));
    const uint32_t stay = 1 + random() % 60;  // long and short runs
    bool inside = random() % 2 != 0;
    for (uint8_t& value : mask.pixels) {
      if (random() % stay == 0) inside = !inside;
      value = inside ? 7 : 0;
    }
    const auto counts = runs_of(mask);
    ASSERT_EQ(parse_run_lengths(compressed(counts), "a"), counts) << "seed " << seed << ", round " << round;
    check_runs(counts, mask.size, "a");
    Image painted = empty_mask(mask.size.height, mask.size.width);
    paint_runs(counts, 7, painted);
    ASSERT_EQ(painted.pixels, mask.pixels) << "seed " << seed << ", round " << round;
  }
}

TEST(RunLengths, RefuseInvalidText) {
  EXPECT_THAT(error_of([] { parse_run_lengths("5T3!", "f: annotations[2]"); }),
              AllOf(HasSubstr("f: annotations[2]: an invalid character at character 3"), HasSubstr("on_error")));
  EXPECT_THAT(error_of([] { parse_run_lengths("5T", "f"); }), HasSubstr("the end at character 2"));
  EXPECT_THAT(error_of([] { parse_run_lengths("5oooooooo", "f"); }), HasSubstr("a number too long at character 1"));
  EXPECT_THAT(error_of([] { parse_run_lengths("N", "f"); }), HasSubstr("an impossible length at character 0"));
  EXPECT_THAT(error_of([] { parse_run_lengths("12N3", "f"); }), HasSubstr("an impossible length at character 2"));
}

/// Oracle for one point: counts the edges that a ray to the right crosses.
bool lies_inside(const std::vector<float>& corners, double x, double y) {
  bool inside = false;
  const size_t n = corners.size() / 2;
  for (size_t i = 0, j = n - 1; i < n; j = i++) {
    const double xi = corners[2 * i], yi = corners[2 * i + 1], xj = corners[2 * j], yj = corners[2 * j + 1];
    if ((yi > y) != (yj > y) && x < (xj - xi) * (y - yi) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

TEST(PaintPolygon, FillsThePixelsWhoseCentresLieInside) {
  const uint32_t seed = 12;
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> place(-10, 40);
  int64_t inside = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<float> corners;
    for (size_t n = 3 + random() % 9; n > 0; --n) {
      corners.push_back(place(random));
      corners.push_back(place(random));
    }
    if (round % 3 == 0)  // whole and half numbers, so that edges run through centres
      for (float& corner : corners) corner = std::round(corner * 2) / 2;
    Image mask = empty_mask(30, 25);
    paint_polygon(corners, 9, mask);
    for (int64_t y = 0; y < 30; ++y)
      for (int64_t x = 0; x < 25; ++x) {
        const bool painted = mask.view().row(y)[x] == 9;
        const double u = double(x) + 0.5, v = double(y) + 0.5;
        inside += painted;
        // Within 1e-9 of an edge both answers are right.
        if (lies_inside(corners, u - 1e-9, v) != lies_inside(corners, u + 1e-9, v)) continue;
        ASSERT_EQ(painted, lies_inside(corners, u, v))
            << "seed " << seed << ", round " << round << " at " << y << ", " << x;
      }
  }
  EXPECT_GT(inside, 10000);
}

TEST(PaintPolygon, CoversARectangleOnce) {
  Image mask = empty_mask(6, 8);
  paint_polygon(std::vector<float>{2, 1, 5, 1, 5, 4, 2, 4}, 3, mask);
  for (int64_t y = 0; y < 6; ++y)
    for (int64_t x = 0; x < 8; ++x) EXPECT_EQ(mask.view().row(y)[x], y >= 1 && y < 4 && x >= 2 && x < 5 ? 3 : 0);
  Image left = empty_mask(4, 4), right = empty_mask(4, 4);  // two masks with a common edge through centres
  paint_polygon(std::vector<float>{0, 0, 1.5, 0, 1.5, 4, 0, 4}, 1, left);
  paint_polygon(std::vector<float>{1.5, 0, 4, 0, 4, 4, 1.5, 4}, 1, right);
  for (size_t p = 0; p < 16; ++p) EXPECT_EQ(left.pixels[p] + right.pixels[p], 1);
}

json polygon_annotation(int64_t id, int64_t image, int64_t category, std::vector<double> corners, double area) {
  return {{"id", id},     {"image_id", image},         {"category_id", category}, {"iscrowd", 0},
          {"area", area}, {"segmentation", {corners}}, {"bbox", {0, 0, 1, 1}}};
}

json runs_annotation(int64_t id, int64_t image, int64_t category, const Image& mask, bool as_text, bool crowd) {
  const auto counts = runs_of(mask);
  json region{{"size", {mask.size.height, mask.size.width}}};
  if (as_text) region["counts"] = compressed(counts);
  else region["counts"] = counts;
  return {{"id", id},  {"image_id", image},     {"category_id", category}, {"iscrowd", crowd ? 1 : 0},
          {"area", 4}, {"segmentation", region}};
}

/// Two images of 6x8 pixels and categories 3, 17 and 90, with all other fields that the official files have.
json tiny_set() {
  return {{"info", {{"year", 2017}, {"images", {{"id", 5}}}}},
          {"licenses", {{{"id", 1}, {"name", "CC"}}}},
          {"images",
           {{{"id", 42}, {"file_name", "b.png"}, {"height", 6}, {"width", 8}, {"license", 1}},
            {{"id", 7}, {"file_name", "a.png"}, {"height", 6}, {"width", 8}, {"date_captured", "2013"}}}},
          {"annotations", json::array()},
          {"categories",
           {{{"id", 90}, {"name", "toothbrush"}, {"supercategory", "indoor"}},
            {{"id", 3}, {"name", "car"}},
            {{"id", 17}, {"name", "cat"}}}}};
}

std::vector<int> mask_of(const json& set, int64_t index) {
  const CocoMasks masks(parse_coco(set.dump(), "i.json"), "pictures");
  const Image mask = masks.checked_mask(index);
  return {mask.pixels.begin(), mask.pixels.end()};
}

TEST(Coco, MapsCategoriesAndImagesInTheOrderOfTheirIds) {
  const CocoInstances coco = parse_coco(tiny_set().dump(), "i.json");
  EXPECT_EQ(coco.categories, (std::vector<CocoCategory>{{3, "car"}, {17, "cat"}, {90, "toothbrush"}}));
  EXPECT_EQ(coco.classes(), 4);
  ASSERT_EQ(coco.images.size(), 2u);
  EXPECT_EQ(coco.images[0].file, "a.png");
  EXPECT_EQ(coco.images[1].size, (ImageSize{6, 8}));
  const CocoMasks masks(coco, "pictures");
  EXPECT_EQ(masks.image_file(1), std::filesystem::path("pictures/b.png"));
  EXPECT_EQ(masks.classes()[3], 3);
  EXPECT_EQ(masks.classes()[4], kNoClass);
  EXPECT_EQ(masks.classes()[255], kIgnoredPixel);
  EXPECT_EQ(mask_of(tiny_set(), 0), std::vector<int>(48, 0)) << "no annotation: all background";
}

TEST(Coco, PaintsSmallThingsOverLargeOnesAndCrowdsUnderAll) {
  json set = tiny_set();
  Image crowd = empty_mask(6, 8), patch = empty_mask(6, 8);
  for (int64_t y = 0; y < 6; ++y)
    for (int64_t x = 0; x < 8; ++x) {
      crowd.pixels[static_cast<size_t>(y * 8 + x)] = x >= 5;
      patch.pixels[static_cast<size_t>(y * 8 + x)] = y == 5 && x < 2;
    }
  set["annotations"] = {polygon_annotation(1, 7, 90, {1, 1, 3, 1, 3, 3, 1, 3}, 4),
                        polygon_annotation(2, 7, 3, {0, 0, 6, 0, 6, 4, 0, 4}, 24),
                        runs_annotation(3, 7, 3, crowd, false, true), runs_annotation(4, 7, 17, patch, true, false)};
  const std::vector<int> expected{1, 1, 1, 1, 1, 1,   255, 255,  //
                                  1, 3, 3, 1, 1, 1,   255, 255,  //
                                  1, 3, 3, 1, 1, 1,   255, 255,  //
                                  1, 1, 1, 1, 1, 1,   255, 255,  //
                                  0, 0, 0, 0, 0, 255, 255, 255, 2, 2, 0, 0, 0, 255, 255, 255};
  EXPECT_EQ(mask_of(set, 0), expected);
  EXPECT_EQ(mask_of(set, 1), std::vector<int>(48, 0));
  // dump() sorts by key, so annotations come first above; here they come last.
  const std::string late = "{\"categories\":" + set["categories"].dump() + ",\"images\":" + set["images"].dump() +
                           ",\"annotations\":" + set["annotations"].dump() + "}";
  EXPECT_EQ(CocoMasks(parse_coco(late, "i.json"), "").mask(0).pixels,
            CocoMasks(parse_coco(set.dump(), "i.json"), "").mask(0).pixels);
}

TEST(Coco, JoinsThePolygonsOfAnObject) {
  json set = tiny_set();
  json two = polygon_annotation(1, 7, 3, {0, 0, 2, 0, 2, 2, 0, 2}, 8);
  two["segmentation"].push_back({4, 4, 6, 4, 6, 6, 4, 6});
  set["annotations"] = {two};
  const auto mask = mask_of(set, 0);
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1), 8);
  EXPECT_EQ(mask[0], 1);
  EXPECT_EQ(mask[5 * 8 + 5], 1);
}

TEST(Coco, NamesThePlaceOfAnError) {
  const json good = polygon_annotation(1768, 7, 3, {0, 0, 2, 0, 2, 2}, 2);
  auto message = [&](auto change) {
    json set = tiny_set();
    set["annotations"] = {good};
    change(set);
    return error_of([&] { parse_coco(set.dump(), "i.json"); });
  };
  auto of_annotation = [&](const char* key, const json& value) {
    return message([&](json& s) { s["annotations"][0][key] = value; });
  };
  const std::string place = "i.json: annotations[0] (id 1768): ";
  EXPECT_THAT(of_annotation("category_id", 5), HasSubstr(place + "category_id 5: no category has this id"));
  EXPECT_THAT(of_annotation("category_id", "car"),
              HasSubstr(place + "\"category_id\" is \"car\": it must be a whole number"));
  EXPECT_THAT(of_annotation("image_id", 8), HasSubstr(place + "image_id 8: no image has this id"));
  EXPECT_THAT(of_annotation("image_id", 18446744073709551615u), HasSubstr("whole number"));
  EXPECT_THAT(of_annotation("segmentation", json::array()), HasSubstr(place + "a segmentation without polygons"));
  EXPECT_THAT(of_annotation("segmentation", 3), HasSubstr(place + "\"segmentation\" is 3"));
  EXPECT_THAT(of_annotation("segmentation", json{{1, 2, 3, 4}}), HasSubstr(place + "a polygon of 4 numbers"));
  EXPECT_THAT(of_annotation("segmentation", json{{1, 2, 3, 4, 5, 6, 7}}), HasSubstr("a polygon of 7 numbers"));
  EXPECT_THAT(of_annotation("segmentation", json{{1, 2, 3, 4, 5, 1e30}}), HasSubstr("a corner at 1e+30"));
  EXPECT_THAT(of_annotation("segmentation", json{{1, 2, 3, 4, 5, nullptr}}), HasSubstr("a corner at null"));
  EXPECT_THAT(of_annotation("segmentation", {{"counts", {48}}}), HasSubstr("without \"size\""));
  EXPECT_THAT(of_annotation("segmentation", {{"size", {6, 8}}}), HasSubstr("without \"counts\""));
  EXPECT_THAT(of_annotation("segmentation", {{"size", {6, 8}}, {"counts", {-1, 49}}}), HasSubstr("a run of -1 pixels"));
  EXPECT_THAT(of_annotation("segmentation", {{"size", {6, 8}}, {"counts", json::array()}}),
              HasSubstr("run lengths of 0 pixels"));
  EXPECT_THAT(of_annotation("segmentation", {{"size", {6, 8}}, {"counts", {40}}}),
              HasSubstr("run lengths of 40 pixels: the image has 8x6 = 48"));
  EXPECT_THAT(of_annotation("segmentation", {{"size", {8, 6}}, {"counts", {48}}}),
              HasSubstr("a mask of 6x8 pixels: its image has 8x6"));
  EXPECT_THAT(of_annotation("segmentation", {{"size", {6, 8}}, {"counts", "5T3!"}}),
              HasSubstr(place + "an invalid character"));
  EXPECT_THAT(message([](json& s) { s["images"][1].erase("width"); }),
              HasSubstr("i.json: images[1] (id 7): no \"width\""));
  EXPECT_THAT(message([](json& s) { s["images"][1]["height"] = 0; }), HasSubstr("8x0 pixels"));
  EXPECT_THAT(message([](json& s) { s["images"][1]["file_name"] = "../a.png"; }), HasSubstr("\"../a.png\""));
  EXPECT_THAT(message([](json& s) { s["images"][1]["id"] = 42; }), HasSubstr("two images of id 42"));
  EXPECT_THAT(message([](json& s) { s["categories"][1]["id"] = 90; }), HasSubstr("two categories of id 90"));
  EXPECT_THAT(message([](json& s) { s.erase("categories"); }), HasSubstr("i.json: no list \"categories\""));
  EXPECT_THAT(message([](json& s) { s["images"] = {{"id", 1}}; }), HasSubstr("no list \"images\""));
  EXPECT_THAT(message([](json& s) { s["annotations"].push_back(17); }), HasSubstr("annotations[1]: no \"image_id\""));
  EXPECT_THAT(error_of([] { parse_coco("{\"images\": [", "i.json"); }),
              AllOf(HasSubstr("i.json: not valid JSON at byte 12 of 12")));
  EXPECT_THAT(error_of([] { parse_coco("[1, 2]", "i.json"); }), HasSubstr("no list"));
  EXPECT_THAT(error_of([] { parse_coco("{\"images\": [1e999]}", "i.json"); }), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of([] { parse_coco("", "i.json"); }), HasSubstr("not valid JSON"));
}

TEST(Coco, BrokenAnnotationsSkipTheirImageIfSet) {
  json set = tiny_set();
  set["annotations"] = {polygon_annotation(1, 7, 3, {0, 0, 2, 0}, 2),
                        polygon_annotation(2, 42, 3, {0, 0, 2, 0, 2, 2}, 2),
                        polygon_annotation(3, 8, 3, {0, 0, 2, 0, 2, 2}, 2), 17};
  const CocoInstances coco = parse_coco(set.dump(), "i.json", true);
  EXPECT_EQ(coco.stray, 2);
  EXPECT_THAT(coco.images[0].problem, HasSubstr("annotations[0] (id 1): a polygon of 4 numbers"));
  EXPECT_EQ(coco.images[1].problem, "");
  const CocoMasks masks(coco, "");
  EXPECT_THAT(error_of([&] { masks.mask(0); }),
              AllOf(HasSubstr("i.json: image \"a.png\""), HasSubstr("a polygon of 4 numbers")));
  EXPECT_EQ(masks.mask(1).size, (ImageSize{6, 8}));
}

TEST(Coco, NeverCrashesOnDamage) {
  json set = tiny_set();
  set["annotations"] = {polygon_annotation(1, 7, 3, {0, 0, 2, 0, 2, 2}, 2),
                        runs_annotation(4, 42, 17, empty_mask(6, 8), true, false)};
  const std::string text = set.dump();
  const uint32_t seed = 13;
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      const size_t at = random() % damaged.size();
      if (random() % 2 == 0) damaged.erase(at, 1 + random() % 9);
      else damaged[at] = "0129-.,:[]{}\"e x"[random() % 16];
    }
    try {
      const CocoMasks masks(parse_coco(damaged, "i.json", round % 2 == 0), "");
      for (int64_t i = 0; i < masks.size(); ++i)
        if (masks.instances().images[static_cast<size_t>(i)].size.area() < 10000) masks.mask(i);
    } catch (const Error& error) {
      ASSERT_EQ(error.blame(), Blame::user) << "seed " << seed << ", round " << round << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace trireme
