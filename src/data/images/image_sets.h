// What sets of images have in common: the keys of [data] that they take, and how images in memory, image files in a
// folder per class, and images with masks become a task's data.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/images/image_dataset.h"
#include "data/images/masked_images.h"
#include "trireme/config.h"
#include "trireme/dataset.h"

namespace trireme {

/// KnownSet::keys of images that are held in memory and augmented, and of image files.
const std::vector<std::string>& augmented_image_keys();
const std::vector<std::string>& image_file_keys();
/// KnownSet::read of both.
void read_image_keys(const ConfigTable& table, const std::filesystem::path& folder, DataSpec& spec);

/// User errors about what the spec says of images: keys that the set does not take, numbers out of range.
void check_image_spec(const DataSpec& spec);

/// What the spec states, else `standard`; none without spec.augment. User error: what it states is too large for
/// samples of this size.
Augmentation augmentation_of(const DataSpec& spec, const Augmentation& standard, ImageSize sample);

/// Samples of spec.image_size, else of `standard_size`, normalised as usual for photographs.
SampleForm form_of(const DataSpec& spec, ImageSize standard_size, const Augmentation& standard);

/// Two splits in memory, and how many images the whole set has.
struct ImageSplits {
  Images train, test;
  int64_t whole_train = 0, whole_test = 0;
};
TaskData image_task(const DataSpec& spec, ImageSplits splits, int64_t classes, const Normalization& normalization,
                    const std::string& title, const Augmentation& augmentation = {});

/// root/train/<class>/ and test_folder/<class>/. User errors: fewer than two classes, no images, broken ones (where the
/// spec says so, they are left out).
TaskData open_classes(const DataSpec& spec, const std::string& title, const std::filesystem::path& root,
                      const std::filesystem::path& test_folder, const SampleForm& form);

struct CifarFormat;
TaskData open_cifar(const DataSpec& spec, const CifarFormat& format, const Normalization& normalization,
                    const std::filesystem::path& folder);

struct MaskedSplits {
  std::shared_ptr<const MaskedImages> train;
  std::shared_ptr<const MaskedImages> test;
};
/// Samples of spec.image_size, else of `standard_size`. User errors: broken images or masks, likewise.
TaskData open_masks(const DataSpec& spec, const std::string& source, const std::filesystem::path& folder,
                    const MaskedSplits& splits, int64_t classes, ImageSize standard_size);

}  // namespace trireme
