#include <fmt/format.h>

#include <algorithm>

#include "data/bytes.h"
#include "data/catalogue.h"
#include "data/images/coco/coco.h"
#include "data/images/coco/coco_masks.h"
#include "data/images/image_sets.h"
#include "trireme/error.h"

namespace trireme::sets {
namespace {

namespace fs = std::filesystem;

constexpr ImageSize kCocoSize{256, 256};

struct CocoSplit {
  fs::path annotations;
  fs::path images;
};

/// annotations/instances_<kind><year>.json of the latest year, with the folder <kind><year> or images/<kind><year>.
CocoSplit find_coco_split(const fs::path& folder, const std::string& kind) {
  const std::string begin = "instances_" + kind, end = ".json";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "annotations", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) names.push_back(name);
  }
  if (names.empty())
    fail_user({.where = (folder / "annotations").string(),
               .what = fmt::format("no {}*{}", begin, end),
               .why = "it holds the annotations",
               .next = "get them from cocodataset.org"});
  const std::string name = *std::max_element(names.begin(), names.end());
  const size_t prefix = begin.size() - kind.size();
  const std::string split = name.substr(prefix, name.size() - prefix - end.size());
  for (const fs::path& images : {folder / split, folder / "images" / split})
    if (fs::is_directory(images, ignored)) return {folder / "annotations" / name, images};
  fail_user({.where = (folder / split).string(),
             .what = "no such folder",
             .why = fmt::format("it holds the images of {}", name),
             .next = "get them from cocodataset.org"});
}

std::shared_ptr<const CocoMasks> read_coco(const DataSpec& spec, const CocoSplit& split) {
  const std::vector<uint8_t> text = read_file(split.annotations, "get it from cocodataset.org");
  const std::string_view characters(reinterpret_cast<const char*>(text.data()), text.size());
  CocoInstances instances = parse_coco(characters, split.annotations, spec.on_error == OnError::skip);
  if (instances.images.empty())
    fail_user({.where = split.annotations.string(),
               .what = "no images",
               .why = "a data set needs at least one",
               .next = "get the file again from cocodataset.org"});
  return std::make_shared<CocoMasks>(std::move(instances), split.images);
}

TaskData open_coco(const DataSpec& spec, const KnownSet& set, const fs::path& folder) {
  const auto train = read_coco(spec, find_coco_split(folder, "train")),
             test = read_coco(spec, find_coco_split(folder, "val"));
  if (train->instances().categories != test->instances().categories)
    fail_user({.where = test->instances().file.string(),
               .what = "other categories",
               .why = fmt::format("those of {} differ in id or name", train->instances().file.string()),
               .next = "take both files from one version of the set"});
  const int64_t classes = train->instances().classes();
  std::string source = fmt::format("{}, {} categories and background", set.found_in(folder), classes - 1);
  const int64_t stray = train->instances().stray + test->instances().stray;
  if (stray > 0) source += fmt::format(", {} annotations of no image left out", stray);
  return open_masks(spec, source, folder, {train, test}, classes, kCocoSize);
}

}  // namespace

KnownSet coco() {
  return {.name = "coco",
          .title = "COCO",
          .description = "photographs with 80 kinds of outlined things, JPEG, 118,287 + 5,000",
          .task = LearningTask::segmentation,
          .folders = {"coco", "COCO", "coco2017"},
          .parts = {{{"annotations/instances_train2017.json", "annotations/instances_train2014.json",
                      "annotations/instances_train.json"},
                     0}},
          .advice = "unpack images and annotations of https://cocodataset.org: train2017/, val2017/, annotations/",
          .keys = image_file_keys(),
          .read = read_image_keys,
          .open = open_coco,
          .shape = [](const DataSpec& spec) {
            return masks_shape(spec, kCocoSize, 81, 118'287, 5'000);  // of 2017; 80 categories and background
          }};
}

}  // namespace trireme::sets
