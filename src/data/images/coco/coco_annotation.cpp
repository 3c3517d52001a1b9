#include "data/images/coco/coco_annotation.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/images/coco/coco_mask.h"
#include "trireme/error.h"

namespace trireme {

using nlohmann::json;

CocoEntry::CocoEntry(const std::filesystem::path& file, const char* list, int64_t position, const json& value)
    : file_(file), name_(fmt::format("{}[{}]", list, position)), value_(value) {
  if (const json* id = find("id"); id != nullptr && id->is_number_integer())
    name_ += fmt::format(" (id {})", id->dump());
}

std::string CocoEntry::where() const { return fmt::format("{}: {}", file_.string(), name_); }

void CocoEntry::fail(std::string what, std::string why, const char* next) const {
  fail_user({.where = where(), .what = std::move(what), .why = std::move(why), .next = next});
}

const json* CocoEntry::find(const char* key) const {
  const auto found = value_.find(key);
  return found == value_.end() ? nullptr : &*found;
}

const json& CocoEntry::at(const char* key) const {
  const json* found = find(key);
  if (found == nullptr) fail(fmt::format("no \"{}\"", key), "it is required");
  return *found;
}

int64_t CocoEntry::whole(const char* key) const {
  const json& value = at(key);
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits) fail(fmt::format("\"{}\" is {}", key, shown(value)), "it must be a whole number");
  return value.get<int64_t>();
}

std::string CocoEntry::text(const char* key) const {
  const json& value = at(key);
  if (!value.is_string()) fail(fmt::format("\"{}\" is {}", key, shown(value)), "it must be a string");
  return value.get<std::string>();
}

std::string CocoEntry::shown(const json& value) {
  constexpr size_t kMost = 40;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

namespace {

constexpr double kFarthest = 1e6;  // of a corner, in pixels

void read_polygons(const CocoEntry& entry, const json& polygons, CocoObject& object) {
  constexpr size_t kLeastNumbers = 6;  // three corners
  if (polygons.empty()) entry.fail("a segmentation without polygons", "a region needs at least one", kRepairAnnotation);
  for (const json& polygon : polygons) {
    if (!polygon.is_array() || polygon.size() < kLeastNumbers || polygon.size() % 2 != 0)
      entry.fail(fmt::format("a polygon of {} numbers", polygon.is_array() ? polygon.size() : 0),
                 "it has x and y of at least three corners", kRepairAnnotation);
    for (const json& number : polygon) {
      if (!number.is_number() || !(std::abs(number.get<double>()) <= kFarthest))
        entry.fail(fmt::format("a corner at {}", CocoEntry::shown(number)), "it must be a position in pixels",
                   kRepairAnnotation);
      object.corners.push_back(number.get<float>());
    }
    object.ends.push_back(static_cast<uint32_t>(object.corners.size()));
  }
}

void read_counts(const CocoEntry& entry, const json& counts, CocoObject& object) {
  if (counts.is_string()) {
    object.counts = parse_run_lengths(counts.get_ref<const std::string&>(), entry.where());
    return;
  }
  if (!counts.is_array())
    entry.fail(fmt::format("\"counts\" is {}", CocoEntry::shown(counts)),
               "run lengths are a list of numbers or a string", kRepairAnnotation);
  for (const json& count : counts) {
    if (!count.is_number_unsigned() || count.get<uint64_t>() > uint64_t{kMostCocoPixels})
      entry.fail(fmt::format("a run of {} pixels", CocoEntry::shown(count)),
                 "lengths are from 0 to the pixels of an image", kRepairAnnotation);
    object.counts.push_back(count.get<uint32_t>());
  }
}

void read_runs(const CocoEntry& entry, const json& region, CocoObject& object) {
  for (const char* key : {"counts", "size"})
    if (!region.contains(key))
      entry.fail(fmt::format("run lengths without \"{}\"", key), "it is required", kRepairAnnotation);
  read_counts(entry, region["counts"], object);
  const json& size = region["size"];
  if (!size.is_array() || size.size() != 2 || !size[0].is_number_integer() || !size[1].is_number_integer())
    entry.fail("an invalid \"size\" of run lengths", "it is [height, width]", kRepairAnnotation);
  object.is_runs = true;
  object.size = {size[0].get<int64_t>(), size[1].get<int64_t>()};
}

void read_region(const CocoEntry& entry, CocoObject& object) {
  const json& region = entry.at("segmentation");
  if (region.is_array()) return read_polygons(entry, region, object);
  if (region.is_object()) return read_runs(entry, region, object);
  entry.fail(fmt::format("\"segmentation\" is {}", CocoEntry::shown(region)),
             "it is a list of polygons or an object of run lengths", kRepairAnnotation);
}

}  // namespace

CocoAnnotation read_coco_annotation(const std::filesystem::path& file, int64_t position, const json& value,
                                    bool skip_broken) {
  const CocoEntry entry(file, "annotations", position, value);
  CocoAnnotation annotation{.image = entry.whole("image_id"), .object = {}, .problem = {}};
  CocoObject& object = annotation.object;
  object.name = entry.name();
  try {
    annotation.category = entry.whole("category_id");
    const json* crowd = entry.find("iscrowd");
    object.crowd = crowd != nullptr && *crowd == 1;
    const json* area = entry.find("area");
    if (area != nullptr && area->is_number()) object.area = area->get<double>();
    read_region(entry, object);
  } catch (const Error& error) {
    if (!skip_broken) throw;
    annotation.problem = error.what();
  }
  return annotation;
}

}  // namespace trireme
