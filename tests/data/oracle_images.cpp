// Decodes and resizes the images named on standard input; oracle_images.py compares the results. A line is KIND HEIGHT
// WIDTH PATH:
//   rgb, grey     the decoded pixels; height and width are ignored
//   crop, stretch a sample of that size, as in an evaluation
//   list          the files of a folder of classes, to standard output as LABEL PATH
// Pixels are appended as bytes to the file that the only argument names.
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "data/bytes.h"
#include "data/images/image_folder.h"
#include "data/images/image_loader.h"
#include "trireme/error.h"

namespace trireme {
namespace {

Image sample_of(const std::string& path, ImageSize size, Fit fit) {
  const std::vector<float> table = normalization_table({{0, 0, 0}, {1.0 / 255, 1.0 / 255, 1.0 / 255}});
  Image buffer, out{size, 3, std::vector<uint8_t>(static_cast<size_t>(3 * size.area()))};
  const ViewedImage image = load_image(
      path, 3, [&](ImageSize whole) { return fit_image(whole, size, fit); }, buffer);
  std::vector<float> values(out.pixels.size());
  std::vector<uint8_t> scratch;
  render_image(image.pixels, image.view, size, table, values.data(), scratch);
  for (size_t i = 0; i < values.size(); ++i) out.pixels[i] = static_cast<uint8_t>(std::lround(values[i]));
  return out;
}

void list(const std::string& path) {
  const ImageFolder folder = list_image_folder(path);
  for (const auto& file : folder.files) std::cout << file.label << ' ' << file.path << '\n';
}

void answer(const std::string& line, std::ofstream& out) {
  std::istringstream words(line);
  std::string kind, path;
  ImageSize size;
  words >> kind >> size.height >> size.width;
  std::getline(words >> std::ws, path);
  if (kind == "list") return list(path);
  const bool plain = kind == "rgb" || kind == "grey";
  const Image image = plain ? decode_image(read_file(path, ""), path, kind == "rgb" ? 3 : 1)
                            : sample_of(path, size, kind == "crop" ? Fit::crop : Fit::stretch);
  out.write(reinterpret_cast<const char*>(image.pixels.data()), static_cast<std::streamsize>(image.pixels.size()));
}

}  // namespace
}  // namespace trireme

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: oracle_images OUTPUT < REQUESTS\n";
    return 2;
  }
  try {
    std::ofstream out(arguments[1], std::ios::binary);
    for (std::string line; std::getline(std::cin, line);) trireme::answer(line, out);
    return out ? 0 : 1;
  } catch (const trireme::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
