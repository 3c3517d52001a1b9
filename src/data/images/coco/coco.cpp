#include "data/images/coco/coco.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "data/images/coco/coco_annotation.h"
#include "data/images/coco/coco_mask.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

/// Reads the three lists while the file is parsed; nothing else of the document is stored.
class CocoReader {
 public:
  CocoReader(const std::filesystem::path& file, bool skip_broken) : skip_broken_(skip_broken) { coco_.file = file; }

  CocoInstances read(std::string_view text) {
    parse(text);
    for (const char* list : {"images", "annotations", "categories"})
      if (!counts_.contains(list)) fail_file(fmt::format("no list \"{}\"", list), "an instances file must have one");
    sort_images();
    number_categories();
    for (CocoAnnotation& annotation : annotations_) place(annotation);
    const auto larger = [](const CocoObject& a, const CocoObject& b) { return a.area > b.area; };
    for (CocoImage& image : coco_.images) std::stable_sort(image.objects.begin(), image.objects.end(), larger);
    return std::move(coco_);
  }

 private:
  using Event = json::parse_event_t;

  [[noreturn]] void fail_file(std::string what, std::string why) const {
    fail_user({.where = coco_.file.string(), .what = std::move(what), .why = std::move(why), .next = kRepairFile});
  }

  void parse(std::string_view text) {
    // The document has depth 0, its lists 1, their elements 2. An element is read when it ends, and then dropped from
    // the document.
    const auto on_event = [this](int depth, Event event, json& value) {
      if (event == Event::key && depth == 1) list_ = value.get<std::string>();
      if (event == Event::array_start && depth == 1) counts_.try_emplace(list_, 0);
      if (depth != 2 || !counts_.contains(list_)) return true;
      const bool ends = event == Event::object_end || event == Event::array_end || event == Event::value;
      if (ends) take(value);
      return !ends;
    };
    try {
      std::ignore = json::parse(text, on_event);
    } catch (const json::exception& error) {
      const auto* syntax = dynamic_cast<const json::parse_error*>(&error);
      std::string why =
          error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..."
      if (size_t place = why.find(": "); place != why.npos) why.erase(0, place + 2);
      if (!syntax) fail_file("not valid JSON", why);
      fail_file(fmt::format("not valid JSON at byte {} of {}", std::min(syntax->byte, text.size()), text.size()), why);
    }
  }

  void take(const json& value) {
    const int64_t position = counts_[list_]++;
    if (list_ == "annotations") return take_annotation(position, value);
    if (list_ == "images") return take_image(CocoEntry(coco_.file, "images", position, value));
    if (list_ != "categories") return;
    const CocoEntry entry(coco_.file, "categories", position, value);
    coco_.categories.push_back({entry.whole("id"), entry.text("name")});
  }

  void take_annotation(int64_t position, const json& value) {
    try {
      annotations_.push_back(read_coco_annotation(coco_.file, position, value, skip_broken_));
    } catch (const Error&) {
      if (!skip_broken_) throw;
      ++coco_.stray;
    }
  }

  void take_image(const CocoEntry& entry) {
    ids_.push_back(entry.whole("id"));
    CocoImage image{.file = entry.text("file_name"),
                    .size = {entry.whole("height"), entry.whole("width")},
                    .objects = {},
                    .problem = {}};
    const bool possible =
        image.size.height > 0 && image.size.width > 0 && image.size.height <= kMostCocoPixels / image.size.width;
    if (!possible)
      entry.fail(fmt::format("{}x{} pixels", image.size.width, image.size.height), "no image has this size");
    const std::filesystem::path path(image.file);
    if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
      entry.fail(fmt::format("\"{}\"", image.file), "an image must be in the images' folder");
    coco_.images.push_back(std::move(image));
  }

  void sort_images() {
    std::vector<std::pair<int64_t, size_t>> order;
    for (size_t i = 0; i < ids_.size(); ++i) order.emplace_back(ids_[i], i);
    std::sort(order.begin(), order.end());
    std::vector<CocoImage> sorted;
    for (const auto& [id, from] : order) {
      if (!image_of_.try_emplace(id, sorted.size()).second)
        fail_file(fmt::format("two images of id {}", id), "ids must differ");
      sorted.push_back(std::move(coco_.images[from]));
    }
    coco_.images = std::move(sorted);
  }

  void number_categories() {
    auto& all = coco_.categories;
    std::sort(all.begin(), all.end(), [](const CocoCategory& a, const CocoCategory& b) { return a.id < b.id; });
    if (static_cast<int64_t>(all.size()) > kMostCocoCategories)
      fail_file(fmt::format("{} categories", all.size()), fmt::format("at most {} are supported", kMostCocoCategories));
    for (size_t i = 0; i < all.size(); ++i)
      if (!category_of_.try_emplace(all[i].id, static_cast<uint8_t>(i + 1)).second)
        fail_file(fmt::format("two categories of id {}", all[i].id), "ids must differ");
  }

  /// Adds the annotation to its image.
  void place(CocoAnnotation& annotation) {
    const std::string where = fmt::format("{}: {}", coco_.file.string(), annotation.object.name);
    const auto image = image_of_.find(annotation.image);
    if (image == image_of_.end()) {
      if (!skip_broken_) fail_annotation(where, fmt::format("image_id {}", annotation.image), "no image has this id");
      ++coco_.stray;
      return;
    }
    CocoImage& to = coco_.images[image->second];
    try {
      if (annotation.problem.empty()) finish(annotation, to.size, where);
    } catch (const Error& error) {
      if (!skip_broken_) throw;
      annotation.problem = error.what();
    }
    if (annotation.problem.empty()) to.objects.push_back(std::move(annotation.object));
    else if (to.problem.empty()) to.problem = std::move(annotation.problem);
  }

  /// Completes an annotation with values from the other lists.
  void finish(CocoAnnotation& annotation, ImageSize image, const std::string& where) const {
    CocoObject& object = annotation.object;
    const auto category = category_of_.find(annotation.category);
    if (category == category_of_.end())
      fail_annotation(where, fmt::format("category_id {}", annotation.category), "no category has this id");
    object.category = category->second;
    if (!object.is_runs) return;
    if (object.size != image)
      fail_annotation(where, fmt::format("a mask of {}x{} pixels", object.size.width, object.size.height),
                      fmt::format("its image has {}x{}", image.width, image.height));
    check_runs(object.counts, image, where);
  }

  [[noreturn]] static void fail_annotation(const std::string& where, std::string what, std::string why) {
    fail_user({.where = where, .what = std::move(what), .why = std::move(why), .next = kRepairAnnotation});
  }

  CocoInstances coco_;
  bool skip_broken_;
  std::string list_;                       // the list that is being read
  std::map<std::string, int64_t> counts_;  // elements of each list so far
  std::vector<int64_t> ids_;               // ids of the images
  std::vector<CocoAnnotation> annotations_;
  std::unordered_map<int64_t, size_t> image_of_;
  std::unordered_map<int64_t, uint8_t> category_of_;
};

}  // namespace

CocoInstances parse_coco(std::string_view text, const std::filesystem::path& file, bool skip_broken) {
  return CocoReader(file, skip_broken).read(text);
}

}  // namespace trireme
