// The area under the ROC curve of a classifier with two classes.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

/// Returns the share of pairs of a positive (label 1) and a negative sample (label 0) in which the positive one has the
/// higher score; ties count half. Exact, by ranks (Hanley and McNeil, "The meaning and use of the area under a ROC
/// curve", 1982). NaN if one of the classes has no sample or a score is NaN.
double area_under_roc(std::span<const double> scores, std::span<const int64_t> labels);

}  // namespace trireme
