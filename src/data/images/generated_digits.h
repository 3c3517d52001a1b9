// Digits drawn by Trireme, used when there is no data set and no network: 28x28 grey images of handwriting-like
// strokes. Two or three ways to write each digit are given as lines and arcs. Each sample draws one of them, bends,
// turns, scales, slants and shifts it, and varies pen width, blur, contrast and noise; some samples have a stray pen
// mark.
#pragma once

#include <cstdint>

#include "data/images/image_dataset.h"

namespace trireme {

constexpr int64_t kDigitSide = 28;
constexpr int64_t kDigitTrain = 60000;
constexpr int64_t kDigitTest = 10000;

enum class DigitSplit { train, test };

/// Mean and deviation of the generated pixels (seed 0, train).
Normalization digit_normalization();

/// Returns the first `count` samples of a split. A sample depends only on (seed, split, index): a shorter set is a
/// prefix of a longer one. Renders on all cores (at most 8): 70,000 samples take about 2 s of processor time.
Images generate_digits(DigitSplit split, int64_t count, uint64_t seed);

}  // namespace trireme
