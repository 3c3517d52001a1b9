// Which Trireme this is.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct Version {
  std::string number;  ///< "0.1.0"
  std::string
      commit;  ///< of the sources, shortened; "-dirty" follows where files had changed; "" where git was not used
  std::string libtorch;
  std::vector<std::string> backends;  ///< that this build has
};

/// Of the library that is linked. Thread-safe.
Version version();

}  // namespace trireme
