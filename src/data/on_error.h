// What becomes of samples that cannot be read.
#pragma once

namespace trireme {

/// Of a damaged image, a mask that does not fit its image, a row of a table with another number of fields.
enum class OnError {
  /// One clear error: of a table when it is opened; of an image then too, as far as its header tells, else when its
  /// sample is first
  /// asked for.
  fail,
  skip  ///< broken samples are found when the set is opened, left out and counted
};

}  // namespace trireme
