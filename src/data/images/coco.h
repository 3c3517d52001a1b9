// COCO's object instances as classes of pixels. Format: cocodataset.org, "Data format", object detection.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/masked_images.h"

namespace trireme {

/// A region of an image.
struct CocoObject {
  uint8_t category = 0;             ///< 1 .. categories
  bool crowd = false;               ///< the region outlines many objects, roughly
  double area = 0;                  ///< pixels, as the file says
  std::string name;                 ///< "annotations[7] (id 1768)"
  std::vector<float> corners;       ///< of all polygons: x, y, x, y, ...
  std::vector<uint32_t> ends;       ///< where in `corners` each polygon ends
  bool is_runs = false;             ///< run lengths instead of polygons:
  ImageSize size;
  std::vector<uint32_t> counts;
};

struct CocoImage {
  std::string file;
  ImageSize size;
  std::vector<CocoObject> objects;  ///< the largest area first
  std::string problem;              ///< the error of the first broken annotation, where broken ones are skipped
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
  int64_t stray = 0;                     ///< annotations of no image, where broken ones are skipped

  int64_t classes() const { return static_cast<int64_t>(categories.size()) + 1; }
};

inline constexpr int64_t kMostCocoCategories = 254;  ///< 0 is background, 255 ignored

/// Reads the text of an instances file; `file` is what messages call it. The text is read once, front to back, and only what is above
/// is kept.
/// User errors: text that is no JSON (with the byte), a key that is missing or of the wrong kind, an id that occurs twice or not at all,
/// run lengths or polygons that are none (each with the place, as "annotations[7] (id 1768)"). `skip_broken`: errors of an
/// annotation go to its image's `problem` instead.
CocoInstances parse_coco(std::string_view text, const std::filesystem::path& file, bool skip_broken = false);

/// The instances with the images of a folder. A pixel is of the class of the smallest object that covers it (objects are painted by
/// falling area), ignored where only a crowd covers it, else background.
class CocoMasks final : public MaskedImages {
 public:
  CocoMasks(CocoInstances instances, std::filesystem::path images);

  int64_t size() const override { return static_cast<int64_t>(instances_.images.size()); }
  std::filesystem::path image_file(int64_t index) const override { return images_ / image(index).file; }
  std::string mask_name(int64_t index) const override;
  Image mask(int64_t index) const override;
  ImageSize mask_size(int64_t index) const override;
  const MaskClasses& classes() const override { return classes_; }
  const CocoInstances& instances() const { return instances_; }

 private:
  /// User error: a broken annotation.
  const CocoImage& sound_image(int64_t index) const;
  const CocoImage& image(int64_t index) const { return instances_.images[static_cast<size_t>(index)]; }

  CocoInstances instances_;
  std::filesystem::path images_;
  MaskClasses classes_;
};

}  // namespace trireme
