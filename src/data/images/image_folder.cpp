#include "data/images/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "data/images/image_loader.h"
#include "data/source_words.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAnnotations = "val_annotations.txt";
const char* const kClassLayout =
    "a set has a folder per class with JPEG or PNG files in it: train/<class>/<image>, val/<class>/<image>";

[[noreturn]] void fail_folder(const fs::path& path, std::string what, std::string why = "") {
  fail_user({.where = path.string(), .what = std::move(what), .why = std::move(why), .next = kClassLayout});
}

std::vector<std::string> folder_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the images below `folder`, relative to `root`: a folder's own files, then those of its subfolders. Counts in
/// `left_out` those with other endings.
std::vector<std::string> images_below(const fs::path& root, const fs::path& folder,
                                      std::map<std::string, int64_t>& left_out) {
  std::vector<std::pair<std::string, std::string>> found;  // folder and name of each image
  try {
    // A broken link counts as an image that cannot be read. For a circular link the query for its kind fails.
    for (const auto& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
      if (!entry.is_regular_file() && entry.exists()) continue;
      if (is_image_name(entry.path()))
        found.emplace_back(entry.path().parent_path().lexically_relative(root).string(),
                           entry.path().filename().string());
      else if (is_other_image_name(entry.path())) ++left_out[small_ending_of(entry.path())];
    }
  } catch (const fs::filesystem_error& error) {
    fail_user({.where = folder.string(),
               .what = "cannot be listed",
               .why = error.code().message(),
               .next = "check its folders, and where links in it lead"});
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> images;
  for (const auto& [parent, name] : found) images.push_back(parent + "/" + name);
  return images;
}

/// "3 images that end in .gif, .webp (.jpg, .jpeg and .png are read)"
std::string endings_in_words(const std::map<std::string, int64_t>& left_out) {
  std::vector<std::string> endings;
  endings.reserve(left_out.size());
  int64_t images = 0;
  for (const auto& [ending, count] : left_out) {
    endings.push_back(ending);
    images += count;
  }
  return fmt::format("{} that {} in {} (.jpg, .jpeg and .png are read)", count_of(images, "image"),
                     images == 1 ? "ends" : "end", trireme::join(endings));
}

std::map<std::string, int32_t> numbered(const std::vector<std::string>& classes) {
  std::map<std::string, int32_t> labels;
  for (size_t i = 0; i < classes.size(); ++i) labels.emplace(classes[i], static_cast<int32_t>(i));
  return labels;
}

/// Reads lines of file name, class and a bounding box, separated by tabs.
void read_annotations(ImageFolder& split, const std::map<std::string, int32_t>& labels) {
  const fs::path file = split.folder / kAnnotations;
  std::ifstream in(file);
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    const size_t tab = line.find('\t'), end = std::min(line.find_first_of("\t\r", tab + 1), line.size());
    const std::string where = fmt::format("{}:{}", file.string(), number);
    if (tab == line.npos) fail_folder(where, "no tab", "a line has a file, a class and a box, separated by tabs");
    const std::string name = line.substr(tab + 1, end - tab - 1);
    const auto label = labels.find(name);
    if (label == labels.end())
      fail_folder(where, fmt::format("class \"{}\"", name), "the training images have no such class");
    split.files.push_back({"images/" + line.substr(0, tab), label->second});
  }
  if (split.files.empty()) fail_folder(file, "no lines");
}

}  // namespace

void ImageFolder::keep_evenly(int64_t n) {
  if (n <= 0 || n >= count()) return;
  std::vector<int64_t> seen(classes.size(), 0), place;  // place: number of files of the same class before a file
  for (const File& file : files) place.push_back(seen[static_cast<size_t>(file.label)]++);
  std::vector<size_t> order(files.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place[a] < place[b]; });
  order.resize(static_cast<size_t>(n));
  std::sort(order.begin(), order.end());
  std::vector<File> kept;
  for (size_t i : order) kept.push_back(std::move(files[i]));
  files = std::move(kept);
}

std::string ImageFolder::left_out_in_words() const {
  return left_out.empty() ? "" : fmt::format(", {} left out", endings_in_words(left_out));
}

ImageFolder list_image_folder(const fs::path& folder, const std::vector<std::string>& classes) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) fail_folder(folder, "no such folder");
  ImageFolder split{.folder = folder, .classes = classes, .files = {}, .left_out = {}};
  const std::vector<std::string> names = folder_names(folder);
  if (classes.empty()) split.classes = names;
  const auto labels = numbered(split.classes);
  if (!classes.empty() && fs::exists(folder / kAnnotations)) {
    read_annotations(split, labels);
    return split;
  }
  if (names.empty()) fail_folder(folder, "no folders in it");
  for (const std::string& name : names) {
    const auto label = labels.find(name);
    if (label == labels.end())
      fail_folder(folder / name, fmt::format("class \"{}\"", name), "the training images have no such class");
    std::map<std::string, int64_t> others;
    std::vector<std::string> images = images_below(folder, folder / name, others);
    if (images.empty())
      fail_folder(folder / name, "no images", others.empty() ? "" : "it has " + endings_in_words(others));
    for (const auto& [ending, count] : others) split.left_out[ending] += count;
    for (std::string& image : images) split.files.push_back({std::move(image), label->second});
  }
  return split;
}

FolderDataset::FolderDataset(ImageFolder folder, SampleForm form)
    : LabelledImages(form, static_cast<int64_t>(folder.classes.size())),
      folder_(std::move(folder)),
      channels_(form.channels) {}

ViewedImage FolderDataset::read(int64_t index, const ViewOf& view_of, Image& buffer) const {
  return load_image(folder_.file(index), channels_, view_of, buffer);
}

}  // namespace trireme
