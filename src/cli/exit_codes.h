// What the program ends with, for scripts.
#pragma once

namespace trireme {

inline constexpr int kRunFailed = 1;  ///< the run failed or was interrupted
inline constexpr int kUserError = 2;  ///< bad input: nothing was begun

}  // namespace trireme
