// AmoebaNet-D for ImageNet, in the cells at which GPipe and torchgpipe cut it: Real et al., "Regularized Evolution for
// Image Classifier Architecture Search", 2019.
#pragma once

#include <vector>

#include "trireme/model.h"

namespace trireme::validation {

/// `cells[id]`: the cell of each node, from 0: a stem of three cells, three times `layers` / 3 normal cells with a
/// reduction between, the classifier with the loss.
struct CellModel {
  Model model;
  std::vector<int> cells;
};

/// AmoebaNet-D(layers, filters) for images of 3 x 224 x 224 and 1000 classes. Normal cells join hidden states 0, 3, 4
/// and 6, as in the implementations that have GPipe's numbers of parameters.
CellModel amoebanet(int layers, int64_t filters);

/// Stage of each node. Stages are runs of cells whose FLOPs have the least variance (GPipe's rule).
std::vector<int> even_stages(const CellModel& net, int stages);

}  // namespace trireme::validation
