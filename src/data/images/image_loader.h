// Images read from files for samples of a given size.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/images/augment.h"
#include "data/images/image_file.h"

namespace trireme {

/// Decodes a file's image into `buffer`. A JPEG of which a far smaller version would do (each side of the view still
/// twice what it is resized to) is decoded at 1/2, 1/4 or 1/8 of its size, and the view moved to match: within a few
/// byte values of the whole one. User errors: those of image_file.h.
ViewedImage load_image(const std::filesystem::path& file, int64_t channels, const ViewOf& view_of, Image& buffer);

/// Which of n samples a check leaves, and why the others are left out.
struct Checked {
  std::vector<int64_t> good;  ///< in order
  std::string first_problem;  ///< message of the first broken sample
};

/// Runs `check` on 0 .. n - 1 with all of the machine's cores; a user error that it throws marks the sample as broken.
/// Any other exception is thrown again. Callers: not from a worker thread.
Checked check_samples(int64_t n, const std::function<void(int64_t)>& check);

/// Throws the error of the first of n samples whose `check` throws a user error, with the number of such samples. As
/// check_samples.
void require_samples(int64_t n, const std::function<void(int64_t)>& check);

/// Sizes by the headers of files, which are not read further than that takes. User errors: no such file; those of
/// image_size, mask_size.
ImageSize size_of_image(const std::filesystem::path& file);
ImageSize size_of_mask(const std::filesystem::path& file);

/// Decodes the whole image coarsely, only to see whether it can be. Returns its size. User errors: those of
/// image_file.h.
ImageSize check_image(const std::filesystem::path& file);

/// "", or ", 2 of 10 training images left out (first: ...)". The problem is shown without the folder that its file is
/// in. User error when no sample is left.
std::string left_out(const std::string& what, int64_t n, const Checked& checked, const std::filesystem::path& folder);

}  // namespace trireme
