// The binary versions of CIFAR-10 and CIFAR-100: records of label bytes and 3 x 32 x 32 colour bytes, channel by
// channel. Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "data/images/image_dataset.h"

namespace trireme {

constexpr int64_t kCifarSide = 32;
constexpr int64_t kCifarPixelBytes = 3 * kCifarSide * kCifarSide;
constexpr int64_t kCifarTrain = 50000;  ///< images of a whole set
constexpr int64_t kCifarTest = 10000;

/// The differences between the two sets.
struct CifarFormat {
  std::string name;  ///< as in experiments and commands
  std::string title;
  int64_t classes = 10;
  /// CIFAR-100: number of groups. A byte before the class gives the group (0 .. 19); it is checked and not used
  /// otherwise.
  int64_t coarse_classes = 0;

  int64_t record_bytes() const { return (coarse_classes > 0 ? 2 : 1) + kCifarPixelBytes; }
};

/// Appends the records of one file's bytes. `file`: its name in messages. User errors: a size that is 0 or not a
/// multiple of a record; a label out of range (with record and byte).
void parse_cifar(std::span<const uint8_t> bytes, const std::filesystem::path& file, const CifarFormat& format,
                 Images& images);

/// Returns the training images of `folder`: those of data_batch_1.bin to data_batch_5.bin that exist (CIFAR-10), or
/// train.bin (CIFAR-100). User errors: none exists; those of parse_cifar.
Images read_cifar_train(const std::filesystem::path& folder, const CifarFormat& format);

/// Returns the images of test_batch.bin (CIFAR-10) or test.bin (CIFAR-100).
Images read_cifar_test(const std::filesystem::path& folder, const CifarFormat& format);

}  // namespace trireme
