#include <fmt/format.h>

#include <span>
#include <utility>

#include "data/images/coco/coco_mask.h"
#include "data/images/coco/coco_masks.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr uint8_t kIgnoredNumber = 255;

void paint(const CocoObject& object, uint8_t value, Image& mask) {
  if (object.is_runs) return paint_runs(object.counts, value, mask);
  uint32_t begin = 0;
  for (uint32_t end : object.ends) {
    paint_polygon(std::span(object.corners).subspan(begin, end - begin), value, mask);
    begin = end;
  }
}

}  // namespace

CocoMasks::CocoMasks(CocoInstances instances, std::filesystem::path images)
    : instances_(std::move(instances)),
      images_(std::move(images)),
      classes_(mask_classes(instances_.classes(), {kIgnoredNumber})) {}

std::string CocoMasks::mask_name(int64_t index) const {
  return fmt::format("{}: image \"{}\"", instances_.file.string(), image(index).file);
}

const CocoImage& CocoMasks::sound_image(int64_t index) const {
  const CocoImage& sound = image(index);
  if (!sound.problem.empty())
    fail_user({.where = mask_name(index),
               .what = "a broken annotation",
               .why = sound.problem,
               .next = "leave the image out"});
  return sound;
}

ImageSize CocoMasks::mask_size(int64_t index) const { return sound_image(index).size; }

Image CocoMasks::mask(int64_t index) const {
  const CocoImage& from = sound_image(index);
  Image mask{
      .size = from.size, .channels = 1, .pixels = std::vector<uint8_t>(static_cast<size_t>(from.size.area()), 0)};
  for (const bool crowds : {true, false})
    for (const CocoObject& object : from.objects)
      if (object.crowd == crowds) paint(object, crowds ? kIgnoredNumber : object.category, mask);
  return mask;
}

}  // namespace trireme
