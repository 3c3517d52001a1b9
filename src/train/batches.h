// Global batches of an experiment, as workers load them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/sampler.h"
#include "runtime/worker.h"
#include "train/experiment.h"
#include "train/loader.h"

namespace trireme {

/// The planned samples, loaded by whoever asks for them. The batch keeps what it needs alive; its load is safe from many threads.
Batch batch_from(PlannedBatch plan);

/// The order of training: shuffled, or for a stream row by row.
BatchSampler training_sampler(const Experiment& experiment, const TaskData& data);

/// The samples of each evaluation batch: in order, each once; of a stream row by row, in whole batches.
std::vector<std::vector<int64_t>> evaluation_batches(const Experiment& experiment, const TaskData& data);

/// The global batch of 0-based training step `step`: keyed by seed and epoch, never by plan.
PlannedBatch training_batch(const Experiment& experiment, const TaskData& data, const BatchSampler& sampler, int64_t step);

}  // namespace trireme
