#include "train/batches.h"

#include <memory>
#include <span>

namespace trireme {

Batch batch_from(std::shared_ptr<const Dataset> set, std::vector<int64_t> indices, const Draw& draw) {
  const auto samples = int64_t(indices.size());
  // shared: a batch is copied to every worker
  auto shared = std::make_shared<const std::vector<int64_t>>(std::move(indices));
  auto load = [set = std::move(set), shared, draw](Range range) {
    Samples s = set->get(std::span(*shared).subspan(size_t(range.begin), size_t(range.size())), draw);
    return std::vector<at::Tensor>{s.data, s.target};
  };
  return {samples, load};
}

Batch training_batch(const Experiment& experiment, const TaskData& data, const BatchSampler& sampler, int64_t step) {
  const int64_t epoch = step / sampler.steps_per_epoch();
  return batch_from(data.train, sampler.batch(epoch, step % sampler.steps_per_epoch()),
                    {experiment.seed, epoch, experiment.data.augment});
}

}  // namespace trireme
