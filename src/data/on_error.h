// How to treat samples that cannot be read.
#pragma once

namespace trireme {

/// For a damaged image, a mask that does not fit its image, or a table row with another number of fields.
enum class OnError {
  /// One clear error. For a table: when it is opened. For an image: when the set is opened, if the header shows it;
  /// otherwise when the sample is first requested.
  fail,
  skip  ///< broken samples are found when the set is opened, left out and counted
};

}  // namespace trireme
