// Shared by sets of images: the keys of [data] that they accept, and how images in memory, image files in a folder per
// class, and images with masks become a task's data.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/data_spec.h"
#include "data/images/image_dataset.h"
#include "data/images/masked_images.h"
#include "model/input_form.h"
#include "trireme/config.h"
#include "trireme/dataset.h"

namespace trireme {

/// KnownSet::keys for images that are held in memory, for those that are augmented too, and for image files.
const std::vector<std::string>& image_keys();
const std::vector<std::string>& augmented_image_keys();
const std::vector<std::string>& image_file_keys();
/// KnownSet::read for all of them.
void read_image_keys(const ConfigTable& table, const std::filesystem::path& folder, DataSpec& spec);

/// User errors in the spec's image settings: keys that the set does not accept; numbers out of range.
void check_image_spec(const DataSpec& spec);

/// Returns the augmentation that the spec states, else `standard`; none without spec.augment. User error: it is
/// too large for samples of this size.
Augmentation augmentation_of(const DataSpec& spec, const Augmentation& standard, ImageSize sample);

/// Returns spec.image_size, or `standard` where it is not stated.
ImageSize sample_size(const DataSpec& spec, ImageSize standard);

/// Returns the form of samples of spec.image_size, else of `standard_size`, normalised as usual for photographs.
SampleForm form_of(const DataSpec& spec, ImageSize standard_size, const Augmentation& standard);

/// Two splits in memory, and the number of images of the whole set.
struct ImageSplits {
  Images train, test;
  int64_t whole_train = 0, whole_test = 0;
};
TaskData image_task(const DataSpec& spec, ImageSplits splits, int64_t classes, const Normalization& normalization,
                    const std::string& title, const Augmentation& augmentation = {});

/// Opens root/train/<class>/ and test_folder/<class>/. User errors: fewer than two classes; no images; broken images
/// (if the spec says so, they are left out instead).
TaskData open_classes(const DataSpec& spec, const std::string& title, const std::filesystem::path& root,
                      const std::filesystem::path& test_folder, const SampleForm& form);

/// KnownSet::shape of CIFAR's sets, and of sets of image files; 0: it depends on the files.
SetShape cifar_shape(const DataSpec& spec, int64_t classes);
SetShape image_files_shape(const DataSpec& spec, ImageSize standard_size, int64_t classes, int64_t train, int64_t test);
/// The same for images with masks.
SetShape masks_shape(const DataSpec& spec, ImageSize standard_size, int64_t classes, int64_t train, int64_t test);

struct CifarFormat;
TaskData open_cifar(const DataSpec& spec, const CifarFormat& format, const Normalization& normalization,
                    const std::filesystem::path& folder);

struct MaskedSplits {
  std::shared_ptr<const MaskedImages> train;
  std::shared_ptr<const MaskedImages> test;
};
/// Opens images with masks, as samples of spec.image_size, else of `standard_size`. User errors: broken images or masks
/// (if the spec says so, they are left out instead).
TaskData open_masks(const DataSpec& spec, const std::string& source, const std::filesystem::path& folder,
                    const MaskedSplits& splits, int64_t classes, ImageSize standard_size);

}  // namespace trireme
