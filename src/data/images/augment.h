// The usual random changes to training images, and how an image of any size becomes a sample of a given one.
//
// Every random choice depends on (seed, epoch, sample index) only: who loads a sample, and in which batch, changes
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "data/images/image.h"

namespace trireme {

/// A part of the image of random area and shape, resized to the sample. Szegedy et al., "Going deeper with
/// convolutions", 2015, section 6. Drawn up to ten times until the part lies inside the image, else the largest middle
/// part of a permitted shape.
struct RandomResizedCrop {
  double least_area = 0.08;  ///< shares of the image's area
  double most_area = 1;
  double least_aspect =
      3.0 / 4;  ///< width : height of the part over width : height of the sample, drawn evenly on a log scale
  double most_aspect = 4.0 / 3;
};

/// Applied in this order. Default: nothing.
struct Augmentation {
  /// Pixels of padding on each side before a crop of the original size at a random place: black in images, ignored in
  /// masks. He et al., "Deep residual learning for image recognition", 2016, section 4.2.
  int64_t padding = 0;
  bool flip = false;                                   ///< left to right with probability 1/2
  std::optional<RandomResizedCrop> resized_crop = {};  ///< before padding
  /// Side of a square around a random pixel that becomes 0 after normalisation, cut off where it leaves the image.
  /// DeVries & Taylor, "Improved regularization of convolutional neural networks with cutout", 2017. 0: none.
  /// Classification only.
  int64_t cutout = 0;
  /// Sample and target are l times their own and 1 - l times those of a random other sample of the set, l ~ Beta(mixup,
  /// mixup). Zhang et al., "mixup: beyond empirical risk minimization", 2018. Targets become float32 [n, classes]. 0:
  /// none. Classification only.
  double mixup = 0;

  bool any() const { return padding > 0 || flip || resized_crop || cutout > 0 || mixup > 0; }
};

/// User error naming data.augmentation.<key> for numbers outside their range. `for_masks`: cutout and mixup are
/// refused.
void check_augmentation(const Augmentation& augmentation, bool for_masks);
/// User error for padding by which a crop may miss the whole of a sample's pixels, or a cutout larger than the sample.
void check_augmentation_fits(const Augmentation& augmentation, ImageSize sample);

/// Where the pixels of a sample come from: pixel (y, x) is pixel (y + dy, x + dx) of `box` resized to `full`, or
/// padding outside of it; `flip` mirrors the finished sample, `cut` is then 0.
struct SampleView {
  Rectangle box;   ///< of the image
  ImageSize full;  ///< what the box is resized to
  int64_t dy = 0;
  int64_t dx = 0;
  bool flip = false;
  Rectangle cut;  ///< of the sample; empty: nothing
};

/// How the image becomes a sample when nothing is random.
/// crop: resized until its shorter side (relative to the sample's) fits, the middle kept: torchvision's Resize and
/// CenterCrop. stretch: resized to the sample's height and width.
enum class Fit { crop, stretch };
SampleView fit_image(ImageSize image, ImageSize sample, Fit fit);

/// The generator of an epoch's draws, for the two functions below.
Philox augmentation_random(uint64_t seed, int64_t epoch);

/// A sample's draw of everything but mixup.
SampleView draw_view(const Augmentation& augmentation, const Philox& random, int64_t index, ImageSize image,
                     ImageSize sample, Fit fit);

/// The view of a sample, once the size of its image is known.
using ViewOf = std::function<SampleView(ImageSize)>;

/// Pixels, and the view of a sample into them.
struct ViewedImage {
  ImageView pixels;
  SampleView view;
};

/// A sample's draw of mixup.
struct Mix {
  int64_t partner = 0;  ///< any sample of the set, drawn evenly
  double own = 1;       ///< the sample's own share
};
Mix draw_mix(double alpha, const Philox& random, int64_t index, int64_t samples);

/// One value per channel; a byte v becomes (v / 255 - mean) / deviation.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;
};

/// [256, channels]: the normalised value of a byte.
std::vector<float> normalization_table(const Normalization& normalization);

/// Writes the sample as float32 [height, width, channels] to `to`. `image` has 1 or 3 channels; the table is of as
/// many. Thread-safe; `scratch` is the caller's and may be reused.
void render_image(const ImageView& image, const SampleView& view, ImageSize sample, const std::vector<float>& table,
                  float* to, std::vector<uint8_t>& scratch);

/// Writes the mask of the same view as int64 [height, width]: classes[stored number], from the nearest pixel; `padding`
/// outside.
void render_mask(const ImageView& mask, const SampleView& view, ImageSize sample, std::span<const int64_t, 256> classes,
                 int64_t padding, int64_t* to);

}  // namespace trireme
