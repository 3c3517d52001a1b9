// The usual random changes to training images, and how an image of any size becomes a sample of a given size.
//
// Each random choice depends on (seed, epoch, sample index) only, not on the worker that loads the sample or on its
// batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/random.h"
#include "data/images/image.h"

namespace trireme {

/// A part of the image with random area and shape, resized to the sample. Szegedy et al., "Going deeper with
/// convolutions", 2015, section 6. The part is drawn up to ten times until it lies inside the image; otherwise it is
/// the largest middle part of a permitted shape.
struct RandomResizedCrop {
  double least_area = 0.08;  ///< shares of the image's area
  double most_area = 1;
  /// width : height of the part, divided by width : height of the sample; drawn evenly on a log scale
  double least_aspect = 3.0 / 4;
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

/// The pixels of a sample: pixel (y, x) is pixel (y + dy, x + dx) of `box` resized to `full`, or padding outside it.
/// `flip` mirrors the finished sample; the pixels of `cut` are then set to 0.
struct SampleView {
  Rectangle box;   ///< part of the image
  ImageSize full;  ///< size to which the box is resized
  int64_t dy = 0;
  int64_t dx = 0;
  bool flip = false;
  Rectangle cut;  ///< part of the sample; empty: none
  /// The part of `box` that is resized, where its edges lie inside pixels: of an image that was decoded at a lower
  /// resolution. nullopt: all of it.
  std::optional<ExactRectangle> part = {};
};

/// How the image becomes a sample without random changes.
/// - crop: resized until its shorter side (relative to the sample's) fits, then the middle is taken: torchvision's
///   Resize and CenterCrop.
/// - stretch: resized to the sample's height and width.
enum class Fit { crop, stretch };
SampleView fit_image(ImageSize image, ImageSize sample, Fit fit);

/// Returns the random generator of an epoch, for the two functions below.
Philox augmentation_random(uint64_t seed, int64_t epoch);

/// Draws the view of a sample: everything except mixup.
SampleView draw_view(const Augmentation& augmentation, const Philox& random, int64_t index, ImageSize image,
                     ImageSize sample, Fit fit);

/// Returns the view of a sample, given the size of its image.
using ViewOf = std::function<SampleView(ImageSize)>;

/// Pixels, and the view of a sample in them.
struct ViewedImage {
  ImageView pixels;
  SampleView view;
};

/// The mixup of a sample.
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

/// Returns [256, channels]: the normalised value of each byte.
std::vector<float> normalization_table(const Normalization& normalization);

/// Writes the sample as float32 [height, width, channels] to `to`. `image` has 1 or 3 channels, and the table has as
/// many. Thread-safe; `scratch` belongs to the caller and may be reused.
void render_image(const ImageView& image, const SampleView& view, ImageSize sample, const std::vector<float>& table,
                  float* to, std::vector<uint8_t>& scratch);

/// Writes the mask of the same view as int64 [height, width]: classes[stored number] of the nearest pixel; `padding`
/// outside the mask.
void render_mask(const ImageView& mask, const SampleView& view, ImageSize sample, std::span<const int64_t, 256> classes,
                 int64_t padding, int64_t* to);

}  // namespace trireme
