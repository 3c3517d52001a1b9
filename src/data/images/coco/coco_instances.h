// The contents of COCO's instances files. Format: cocodataset.org, "Data format", object detection.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/images/image.h"

namespace trireme {

/// A region of an image.
struct CocoObject {
  uint8_t category = 0;        ///< 1 .. categories
  bool crowd = false;          ///< the region outlines many objects, roughly
  double area = 0;             ///< pixels, as stated in the file
  std::string name;            ///< "annotations[7] (id 1768)"
  std::vector<float> corners;  ///< corners of all polygons: x, y, x, y, ...
  std::vector<uint32_t> ends;  ///< end of each polygon in `corners`
  bool is_runs = false;        ///< true: `size` and `counts` (run lengths) instead of polygons
  ImageSize size;
  std::vector<uint32_t> counts;
};

struct CocoImage {
  std::string file;
  ImageSize size;
  std::vector<CocoObject> objects;  ///< the largest area first
  std::string problem;              ///< error of the first broken annotation, if broken ones are skipped
};

struct CocoCategory {
  int64_t id = 0;
  std::string name;
  bool operator==(const CocoCategory&) const = default;
};

struct CocoInstances {
  std::filesystem::path file;
  std::vector<CocoCategory> categories;  ///< by id; the i-th is class i + 1 of a pixel, 0 is background
  std::vector<CocoImage> images;         ///< in the order of their ids
  int64_t stray = 0;                     ///< annotations without an image, if broken ones are skipped

  int64_t classes() const { return static_cast<int64_t>(categories.size()) + 1; }
};

inline constexpr int64_t kMostCocoCategories = 254;  ///< 0 is background, 255 ignored

}  // namespace trireme
