#include "data/images/coco/coco_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kGroupBits = 5;
constexpr int kMostGroups = 7;                       // 35 bits, more than any length needs
constexpr int64_t kMaxRunLength = int64_t{1} << 28;  // largest number of pixels of an image (image_file.h)
constexpr int64_t kMore = 32, kSign = 16, kPayload = 31;
const char* const kAnnotationNext = "repair the annotation, or leave its image out with data.on_error = \"skip\"";

}  // namespace

std::vector<uint32_t> parse_run_lengths(std::string_view text, const std::string& where) {
  std::vector<uint32_t> counts;
  auto fail = [&](size_t at, const char* what, const char* why) {
    fail_user({.where = where,
               .what = fmt::format("{} at character {} of its run lengths", what, at),
               .why = why,
               .next = kAnnotationNext});
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    int64_t number = 0, group = kMore;
    for (int g = 0; (group & kMore) != 0; ++g, ++at) {
      if (at == text.size()) fail(at, "the end", "the last number is incomplete");
      if (g == kMostGroups) fail(begin, "a number too long", "lengths have at most 32 bits");
      group = static_cast<unsigned char>(text[at]) - int64_t{'0'};
      if (group < 0 || group > kMore + kPayload) fail(at, "an invalid character", "numbers are written in '0' to 'o'");
      number |= (group & kPayload) << (kGroupBits * g);
      const bool negative = (group & kMore) == 0 && (group & kSign) != 0;
      if (negative) number -= int64_t{1} << (kGroupBits * (g + 1));
    }
    if (counts.size() > 2) number += counts[counts.size() - 2];
    if (number < 0 || number > kMaxRunLength)
      fail(begin, "an impossible length", "lengths are from 0 to the pixels of an image");
    counts.push_back(static_cast<uint32_t>(number));
  }
  return counts;
}

void check_runs(std::span<const uint32_t> counts, ImageSize image, const std::string& where) {
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (sum != image.area())
    fail_user({.where = where,
               .what = fmt::format("run lengths of {} pixels", sum),
               .why = fmt::format("the image has {}x{} = {}", image.width, image.height, image.area()),
               .next = kAnnotationNext});
}

void paint_runs(std::span<const uint32_t> counts, uint8_t value, Image& mask) {
  int64_t at = 0;
  bool inside = false;
  for (uint32_t count : counts) {
    for (int64_t end = at + count; inside && at < end; ++at)
      mask.pixels[static_cast<size_t>(at % mask.size.height * mask.size.width + at / mask.size.height)] = value;
    if (!inside) at += count;
    inside = !inside;
  }
}

void paint_polygon(std::span<const float> corners, uint8_t value, Image& mask) {
  const size_t n = corners.size() / 2;
  const double height = double(mask.size.height), width = double(mask.size.width);
  // returns the first pixel whose centre is at `v` or beyond
  auto first_centre = [](double v, double most) {
    return static_cast<int64_t>(std::clamp(std::ceil(v - 0.5), 0.0, most));
  };
  std::vector<std::pair<int64_t, double>> crossings;  // row, and x at the row's centre
  for (size_t i = 0; i < n; ++i) {
    double x0 = corners[2 * i], y0 = corners[2 * i + 1];
    double x1 = corners[2 * ((i + 1) % n)], y1 = corners[2 * ((i + 1) % n) + 1];
    if (y0 > y1) {
      std::swap(x0, x1);
      std::swap(y0, y1);
    }
    for (int64_t row = first_centre(y0, height), end = first_centre(y1, height); row < end; ++row)
      crossings.emplace_back(row, x0 + (double(row) + 0.5 - y0) * (x1 - x0) / (y1 - y0));
  }
  std::sort(crossings.begin(), crossings.end());
  for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
    uint8_t* row = mask.pixels.data() + crossings[i].first * mask.size.width;
    std::fill(row + first_centre(crossings[i].second, width), row + first_centre(crossings[i + 1].second, width),
              value);
  }
}

}  // namespace trireme
