#include "update/step_times.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "trireme/error.h"

namespace trireme {

double ModelledSteps::seconds(int replica, int64_t step) const {
  check_internal(!base_seconds.empty(), "modelled steps have a length");
  double seconds = base_seconds[std::min(size_t(replica), base_seconds.size() - 1)];
  if (jitter > 0) {
    const double z = Philox(random_key(seed, "jitter of steps")).normal(uint64_t(step), uint64_t(replica));
    seconds *= std::exp(jitter * z - jitter * jitter / 2);
  }
  if (straggle_probability > 0 &&
      Philox(random_key(seed, "straggling steps")).uniform(uint64_t(step), uint64_t(replica)) < straggle_probability)
    seconds *= straggle_factor;
  return seconds;
}

}  // namespace trireme
