// The binary version of CIFAR-10: records of one label byte and 3 x 32 x 32 colour bytes, channel by channel.
// Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/image_dataset.h"

namespace trireme {

constexpr int64_t kCifarSide = 32;
constexpr int64_t kCifarRecord = 1 + 3 * kCifarSide * kCifarSide;  ///< bytes
constexpr int64_t kCifarClasses = 10;
constexpr int64_t kCifarTrain = 50000;  ///< images of the whole set
constexpr int64_t kCifarTest = 10000;

/// Appends the records of one file. User errors: missing file, a size that is no multiple of a record, a label above 9.
void read_cifar10_file(const std::filesystem::path& file, Images& images);

/// data_batch_1.bin to data_batch_5.bin of `folder`, those that are there; user error when none is.
Images read_cifar10_train(const std::filesystem::path& folder);

/// test_batch.bin of `folder`.
Images read_cifar10_test(const std::filesystem::path& folder);

}  // namespace trireme
