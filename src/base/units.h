// Quantities with units, as users write and read them: "2 GiB", "25 Gbit/s", "15.7 TFLOP/s", "0.5 ms", "10 epochs".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "trireme/config.h"

namespace trireme {

// Errors (user) of each parser: the text is not a number with one of the units. They name `key`, the text and the
// accepted units.

/// Bytes: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024).
int64_t parse_bytes(std::string_view text, std::string_view key);

/// Bytes per second from "25 Gbit/s" (bits, powers of 1000) or "1 GB/s", "200 MiB/s".
double parse_bandwidth(std::string_view text, std::string_view key);

/// Floating-point operations: FLOP, kFLOP, MFLOP, GFLOP, TFLOP, PFLOP (powers of 1000).
double parse_flops(std::string_view text, std::string_view key);

/// Operations per second: "15.7 TFLOP/s".
double parse_flop_rate(std::string_view text, std::string_view key);

/// Seconds: ns, us, ms, s, min, h.
double parse_seconds(std::string_view text, std::string_view key);

/// "10 epochs", "0.5 epochs", "500 steps".
Length parse_length(std::string_view text, std::string_view key);

std::string format_bytes(int64_t bytes);     ///< three significant digits: "1.50 GiB"
std::string format_seconds(double seconds);  ///< "2.00 µs", "12.3 ms", "4.56 s", "3 min 20 s"
std::string format_count(double value);      ///< "1.23 k", "11.2 M"

}  // namespace trireme
