// A libtorch device for tests that is as unforgiving as a GPU: its memory cannot be touched by the host, yet it needs
// none. It has the dispatch key PrivateUse1. Its kernels are libtorch's CPU kernels on the same memory and the same
// strides, so that results are equal to the CPU's bit by bit.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace trireme::test {

constexpr int kStrictDevices = 4;

/// Makes the device known to libtorch. Call it before the first use of the device; further calls do nothing.
/// Thread-safe. From then on, a host read or write of a tensor on the device ends the process by SIGSEGV, after one
/// line on stderr. Operators throw c10::Error if their tensors are on several devices.
void install_strict_device();

inline c10::Device strict_device(int index) { return {c10::DeviceType::PrivateUse1, c10::DeviceIndex(index)}; }

/// Bytes that tensors hold on a device now, as they were asked for (not rounded to pages).
int64_t strict_bytes(int index);

/// The most bytes at one time since the start or the last reset.
int64_t strict_peak_bytes(int index);
void reset_strict_peak(int index);

/// How often this process has waited for a device: copies to the host, item(), and operators whose result has a size or
/// a value that the host must know (equal, nonzero, masked_select, a mask as an index, ...).
int64_t strict_synchronisations();

}  // namespace trireme::test
