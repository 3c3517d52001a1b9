// ResNet-101 with the cuts of torchgpipe's benchmarks and of those that follow them.
#pragma once

#include <vector>

#include "validation/simulated.h"

namespace trireme::validation {

/// torchvision's ResNet-101 for images of 3 x side x side.
Model resnet101(int64_t side, int64_t classes);

/// One worker per part, `chunks` micro-batches. `balance`: the number of modules of each worker in torchgpipe's
/// sequential ResNet-101: 4 of the stem, 11 per block (identity, three convolutions with norms and ReLUs, sum, ReLU), 3
/// of the head. Cuts lie between two blocks or behind a block's first ReLU. All chunks but the last are recomputed.
Plan resnet101_pipeline(const Setting& setting, int chunks, const std::vector<int>& balance);

/// The balance of two workers in torchgpipe's benchmark: the cut is behind the first ReLU of the 13th block, layer3.5.
inline const std::vector<int> kTwoParts{140, 230};

}  // namespace trireme::validation
