#include "runtime/layer_call.h"

#include <ATen/ATen.h>

#include "runtime/replicas/flat_shard.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/worker/deferred_numbers.h"

namespace trireme {

const at::Tensor& CachedView::of(const at::Tensor& flat, const ParameterShard& shard) {
  if (!flat_.is_same(flat)) {
    flat_ = flat;
    view_ = view_of_shard(flat, shard);
  }
  return view_;
}

const at::Tensor& RuntimeLayerCall::parameter(int index) {
  ParameterBinding& p = binding_->parameters[size_t(index)];
  const Bucket& bucket = context_->program->buckets[size_t(p.bucket)];
  return p.views[size_t(version_ % bucket.versions)].of(context_->replicas->weights(p.bucket, version_),
                                                        bucket.shards[size_t(p.shard)]);
}

LayerCall::GradientTarget RuntimeLayerCall::gradient_target(int index) {
  ParameterBinding& p = binding_->parameters[size_t(index)];
  const at::Tensor flat = context_->replicas->gradient(p.bucket);
  bool& written = context_->replicas->written(p.bucket, p.shard);
  if (p.by_rows) context_->replicas->touch_rows(p.bucket, p.shard, rows);
  GradientTarget target{p.gradient.of(flat, context_->program->buckets[size_t(p.bucket)].shards[size_t(p.shard)]),
                        written || p.by_rows};
  written = true;
  return target;
}

void RuntimeLayerCall::add_gradient(int index, const at::Tensor& gradient) {
  GradientTarget target = gradient_target(index);
  if (target.accumulate) target.tensor.add_(gradient);
  else target.tensor.copy_(gradient);
}

/// All workers of the tensor axis have the same samples. If all have whole values, only the first one counts them; if
/// each has a part of the values, all do.
bool RuntimeLayerCall::counts_metrics() const {
  return !recomputing && (binding_->tensor_index == 0 || binding_->op->option.output.is_partial());
}

void RuntimeLayerCall::report(std::string_view metric, double value) {
  if (context_->reads_step) *context_->reads_step = true;
  if (counts_metrics()) (*context_->metrics)[std::string(metric)] += value;
}

void RuntimeLayerCall::report(std::string_view metric, const at::Tensor& value) {
  if (counts_metrics()) context_->numbers->add_metric(metric, value);
}

}  // namespace trireme
