// Regions of an image as COCO writes them: polygons and run lengths.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/image.h"

namespace trireme {

/// Reads COCO's compressed run lengths. Each number is written in groups of five bits, the lowest first, as characters
/// '0' + group. 32 added to a group means that another group follows; bit 16 of the last group is the sign. From the
/// fourth number on, the difference to the number two before is written. Format: T.-Y. Lin et al., "Microsoft COCO:
/// common objects in context", 2014, and the COCO API's description of its run-length masks. User error naming `where`
/// and the position in the text: other characters; a number that does not end; a length below 0.
std::vector<uint32_t> parse_run_lengths(std::string_view text, const std::string& where);

/// User error naming `where` when run lengths do not add up to the pixels of an image.
void check_runs(std::span<const uint32_t> counts, ImageSize image, const std::string& where);

/// Sets the pixels of a region to `value`. `counts` are lengths of runs of pixels, column after column, alternately
/// outside and inside the region, starting outside. Their sum must be the number of pixels of the mask.
void paint_runs(std::span<const uint32_t> counts, uint8_t value, Image& mask);

/// Sets the pixels whose centres lie inside a polygon of corners x, y, x, y, ... to `value` (even-odd rule; a centre on
/// an edge counts as inside if the inside is to its right). Pixel (y, x) has its centre at (x + 0.5, y + 0.5). Parts
/// outside the image are cut off.
void paint_polygon(std::span<const float> corners, uint8_t value, Image& mask);

}  // namespace trireme
