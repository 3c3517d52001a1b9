// A fingerprint of a training set, by which a run that is resumed notices that its data have changed.
#pragma once

#include <string>

#include "trireme/dataset.h"

namespace trireme {

/// Returns a short text that follows from the values of a set's samples, without augmentation: of all samples of a set
/// of up to two million values; otherwise of samples at equal distances; of a set that decodes files, of at most 16
/// samples. Errors: those of Dataset::get.
std::string data_fingerprint(const Dataset& set);

/// True if the fingerprints may be of the same data: on two machines their last digits can differ, because values are
/// rounded and images decoded differently.
bool is_same_data(const std::string& one, const std::string& other);

}  // namespace trireme
