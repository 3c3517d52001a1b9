// The program's exit codes, for scripts.
#pragma once

namespace trireme {

inline constexpr int kRunFailed = 1;  ///< the run failed or was interrupted
inline constexpr int kUserError = 2;  ///< invalid input: nothing was started

}  // namespace trireme
