// Opens the sets of images by name. For open.cpp.
#pragma once

#include <filesystem>

#include "data/catalogue.h"
#include "data/open.h"

namespace trireme {

/// What a data set of this name takes.
bool has_image_files(const std::string& name);  ///< "tiny-imagenet", "folder", "camvid", "coco": image_size and on_error

/// "cifar10", "cifar100", "tiny-imagenet", "camvid" or "coco" in the folder that was found; spec.name says which.
/// User errors: a file or folder of the set is missing, a file is damaged.
TaskData open_image_set(const DataSpec& spec, const KnownSet& set, const std::filesystem::path& folder);

/// "folder": spec.path with train/<class>/ and val/<class>/ (or valid/, validation/, test/).
TaskData open_folder(const DataSpec& spec);

/// User errors about what the spec says of images: keys that the set does not take, numbers out of range.
void check_image_spec(const DataSpec& spec);

}  // namespace trireme
