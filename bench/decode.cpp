// Images per second of processor time that one thread reads from a folder of classes, decodes, resizes and normalises:
// the counterpart of peers/decode.py.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "data/images/image_folder.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kBatch = 64;

struct Options {
  std::string folder;  ///< with a folder per class
  int64_t size = 64;
  int64_t images = 2000;
  double seconds = 3;
  bool random = false;  ///< random resized crop and flip, as in training, instead of resizing and cropping the middle
};

double images_per_second(const Options& o) {
  ImageFolder folder = list_image_folder(o.folder);
  folder.keep_evenly(o.images);
  const Augmentation augmentation{.flip = true, .resized_crop = RandomResizedCrop{}};
  const FolderDataset set(folder, {{o.size, o.size}, 3, {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}, augmentation});
  auto pass = [&](int64_t epoch, auto enough) {
    int64_t done = 0;
    for (; done < set.size() && !enough(); done += std::min(kBatch, set.size() - done)) {
      std::vector<int64_t> indices;
      for (int64_t i = done; i < std::min(done + kBatch, set.size()); ++i) indices.push_back(i);
      set.get(indices, {.seed = 1, .epoch = epoch, .augment = o.random});
    }
    return done;
  };
  pass(0, [] { return false; });            // brings the files into the page cache
  const std::clock_t begin = std::clock();  // processor time: other programs on the machine do not count
  auto elapsed = [&] { return double(std::clock() - begin) / CLOCKS_PER_SEC; };
  int64_t images = 0;
  for (int64_t epoch = 1; elapsed() < o.seconds; ++epoch) images += pass(epoch, [&] { return elapsed() >= o.seconds; });
  return double(images) / elapsed();
}

int run(int count, char** arguments) {
  Options o;
  CLI::App app{"Images decoded and resized per second of processor time"};
  app.add_option("folder", o.folder, "folder with a folder of images per class")->required();
  app.add_option("--size", o.size, "side of a sample in pixels");
  app.add_option("--images", o.images, "of the folder, evenly over its classes");
  app.add_option("--seconds", o.seconds, "of processor time to measure for");
  app.add_flag("--random", o.random, "random resized crop and flip");
  CLI11_PARSE(app, count, arguments);
  at::set_num_threads(1);
  fmt::print("{:.1f}\n", images_per_second(o));
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  try {
    return trireme::run(count, arguments);
  } catch (const trireme::Error& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
