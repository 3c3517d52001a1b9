#include "base/seconds.h"

#include <chrono>
#include <ctime>

namespace trireme {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double process_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::duration<double>(std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec))
      .count();
}

}  // namespace trireme
