// The strict device is written for the libtorch of Debian 12; newer ones have other kernels to register.
#include <stdexcept>

#include "support/strict_device.h"

namespace trireme::test {

void install_strict_device() { throw std::runtime_error("this build has no strict device: libtorch is too new"); }
int64_t strict_bytes(int) { return 0; }
int64_t strict_peak_bytes(int) { return 0; }
void reset_strict_peak(int) {}
int64_t strict_synchronisations() { return 0; }

}  // namespace trireme::test
