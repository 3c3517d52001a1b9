// Reads images from files for samples of a given size.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/images/augment.h"
#include "data/images/image_file.h"

namespace trireme {

/// Decodes a file's image into `buffer`. A JPEG is decoded at 1/2, 1/4 or 1/8 of its size if each side of the view is
/// then still at least twice the side to which it is resized, and the view is changed to match, to a fraction of a
/// pixel: Pillow's thumbnail(), which reduces alike, gives the same bytes. The result differs from that of the whole
/// image by a few byte values. User errors: those of image_file.h.
ViewedImage load_image(const std::filesystem::path& file, int64_t channels, const ViewOf& view_of, Image& buffer);

/// The samples that pass a check, and why the others do not.
struct Checked {
  std::vector<int64_t> good;  ///< in order
  std::string first_problem;  ///< message of the first broken sample
};

/// Runs `check` on 0 .. n - 1 on all cores of the machine. A user error that it throws marks the sample as broken. Any
/// other exception is rethrown. Must not be called from a worker thread.
Checked check_samples(int64_t n, const std::function<void(int64_t)>& check);

/// Throws the error of the first of n samples whose `check` throws a user error, with the number of such samples. Runs
/// as check_samples.
void require_samples(int64_t n, const std::function<void(int64_t)>& check);

/// Returns the size stated in a file's header; usually only the header is read. User errors: no such file; those of
/// image_size, mask_size.
ImageSize size_of_image(const std::filesystem::path& file);
ImageSize size_of_mask(const std::filesystem::path& file);

/// Decodes the whole image at low resolution, only to check that it can be decoded. Returns its size. User errors:
/// those of image_file.h.
ImageSize check_image(const std::filesystem::path& file);

/// Returns "", or ", 2 of 10 training images left out (first: ...)". The problem is shown without the path of `folder`.
/// User error when no sample is left.
std::string left_out(const std::string& what, int64_t n, const Checked& checked, const std::filesystem::path& folder);

}  // namespace trireme
