// ResNet-101 as torchgpipe's benchmarks and those that follow them cut it.
#pragma once

#include "validation/simulated.h"

namespace trireme::validation {

/// torchvision's, for images of 3 x side x side.
Model resnet101(int64_t side, int64_t classes);

/// 2 workers, 4 chunks, a balance of [140, 230] modules: 4 of the stem and 11 per block (identity, three convolutions with norms and
/// ReLUs, sum), so that the cut is behind the first ReLU of the 13th block, layer3.5. All chunks but the last are recomputed.
Plan resnet101_pipeline(const Setting& setting);

}  // namespace trireme::validation
