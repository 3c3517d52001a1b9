// How fast the machine's memory is at the moment. Other programs and other virtual machines read and write the same
// memory, and a step that moves much data then takes longer although its cores are as fast as before.
#pragma once

#include <optional>

namespace trireme {

/// Returns the bytes per second that one thread reads from a block larger than usual caches, which it writes before:
/// the median over its parts, so that a thread that loses its core for a while does not matter. Takes about 10 ms, and
/// 64 MiB meanwhile, which memory accounting does not count. nullopt: there is not enough memory. Thread-safe; two
/// calls at the same time disturb each other.
std::optional<double> memory_speed();

}  // namespace trireme
