#include "comm/local/local_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/devices/device.h"
#include "comm/group_member.h"
#include "comm/local/reduce_kernels.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Bytes over all ranks up to which one rank does all the work: it takes less time than a second hand-over between
// threads.
constexpr int64_t kWorkForOne = 32 * 1024;
// Slices start at cache lines, so that two ranks do not write to one.
constexpr int64_t kLineBytes = 64;

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::all_gather: return "all_gather";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_to_all: return "all_to_all";
    case Collective::broadcast: return "broadcast";
    case Collective::barrier: return "barrier";
  }
  return "";
}

bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || (a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes()));
}

[[noreturn]] void fail_mismatch(int a, const std::string& what_a, int b, const std::string& what_b) {
  fail_run({.where = "collective",
            .what = fmt::format("rank {} called {}, rank {} called {}", a, what_a, b, what_b),
            .why = "all ranks of a group must make the same calls in the same order, with tensors that fit together",
            .next = "compare the two ranks' instructions"});
}

/// True if corresponding elements are at the same offset: all contiguous, or all channels_last.
bool same_order_in_memory(const std::vector<const at::Tensor*>& tensors) {
  for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    if (std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor* t) { return t->is_contiguous(format); }))
      return true;
  return false;
}

void copy_values(const at::Tensor& from, at::Tensor& to) {
  if (from.numel() == 0 || from.is_same(to)) return;
  if (!on_host(from) || !on_host(to) || !same_order_in_memory({&from, &to})) {
    to.copy_(from);
  } else if (from.data_ptr() != to.data_ptr()) {
    std::memcpy(to.data_ptr(), from.data_ptr(), from.nbytes());
  }
}

/// The arithmetic of reduce() by libtorch's operators, on the device of `output`. Devices compute on their default
/// streams, so work that a worker launched before it arrived here runs first. A copy between two GPUs waits for both.
void reduce_on_device(ReduceOp op, const std::vector<const at::Tensor*>& inputs, const at::Tensor& output) {
  const bool widens = output.scalar_type() == at::kBFloat16;
  const auto type = widens ? at::kFloat : output.scalar_type();
  at::Tensor result = inputs[0]->to(output.device(), type, /*non_blocking=*/false, /*copy=*/true);
  for (size_t i = 1; i < inputs.size(); ++i) {
    const at::Tensor next = inputs[i]->to(output.device(), type);
    if (op == ReduceOp::sum) result.add_(next);
    else at::maximum_out(result, result, next);
  }
  output.copy_(result);
}

bool any_on_device(const std::vector<LocalCall>& calls) {
  const auto is_on_device = [](const at::Tensor& tensor) { return tensor.defined() && !on_host(tensor); };
  return std::any_of(calls.begin(), calls.end(), [&](const LocalCall& call) {
    return std::any_of(call.inputs.begin(), call.inputs.end(), is_on_device) ||
           std::any_of(call.outputs.begin(), call.outputs.end(), is_on_device);
  });
}

void reduce_tensors(ReduceOp op, const std::vector<const at::Tensor*>& inputs, const at::Tensor& output) {
  if (!on_host(output)) return reduce_on_device(op, inputs, output);
  std::vector<const at::Tensor*> all = inputs;
  all.push_back(&output);
  if (!same_order_in_memory(all)) {
    std::vector<at::Tensor> ordered(inputs.size());
    std::vector<const at::Tensor*> pointers(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) pointers[i] = &(ordered[i] = inputs[i]->contiguous());
    const at::Tensor result = at::empty(output.sizes(), output.options());
    reduce_tensors(op, pointers, result);
    output.copy_(result);
    return;
  }
  std::vector<const void*> sources;
  for (const at::Tensor* input : inputs) sources.push_back(input->data_ptr());
  void* target = output.data_ptr();
  reduce(output.scalar_type(), op, sources, {&target, 1}, output.numel());
}

/// First element of slice `index` of `count` elements cut into `parts` at cache lines.
int64_t slice_begin(int64_t count, int64_t element_size, int parts, int index) {
  const int64_t per_line = kLineBytes / element_size;
  const int64_t lines = (count + per_line - 1) / per_line;
  return std::min(count, lines * index / parts * per_line);
}

void reduce_slice(const std::vector<LocalCall>& calls, int rank) {
  const at::Tensor& mine = calls[rank].inputs[0];
  const int64_t element_size = mine.element_size();
  const int parts = static_cast<int>(calls.size());
  const int64_t begin = slice_begin(mine.numel(), element_size, parts, rank);
  const int64_t end = slice_begin(mine.numel(), element_size, parts, rank + 1);
  if (begin == end) return;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const LocalCall& call : calls) {
    inputs.push_back(static_cast<const char*>(call.inputs[0].data_ptr()) + begin * element_size);
    outputs.push_back(static_cast<char*>(call.outputs[0].data_ptr()) + begin * element_size);
  }
  reduce(mine.scalar_type(), calls[rank].op, inputs, outputs, end - begin);
}

/// For tensors with different memory formats, or on devices: adds copies.
void reduce_mixed(std::vector<LocalCall>& calls) {
  std::vector<const at::Tensor*> inputs;
  for (const LocalCall& call : calls) inputs.push_back(&call.inputs[0]);
  const at::Tensor result = at::empty(inputs[0]->sizes(), inputs[0]->options());
  reduce_tensors(calls[0].op, inputs, result);
  for (LocalCall& call : calls) copy_values(result, call.outputs[0]);
}

/// True if all tensors of the calls are on the CPU and have the same order of elements in memory.
bool share_memory_order(const std::vector<LocalCall>& calls) {
  if (any_on_device(calls)) return false;
  std::vector<const at::Tensor*> all;
  for (const LocalCall& call : calls) {
    all.push_back(&call.inputs[0]);
    all.push_back(&call.outputs[0]);
  }
  return same_order_in_memory(all);
}

}  // namespace

std::string to_string(const LocalCall& call) {
  std::string text = name_of(call.collective);
  if (call.collective == Collective::all_reduce || call.collective == Collective::reduce_scatter)
    text += call.op == ReduceOp::sum ? "(sum)" : "(max)";
  if (call.collective == Collective::broadcast) text += fmt::format("(root {})", call.root);
  if (call.inputs.size() == 1) text += " of " + shape_text(call.inputs[0]);
  return text;
}

void LocalGroup::check_calls() const {
  const LocalCall& first = calls[0];
  const bool one_shape = first.collective == Collective::all_reduce || first.collective == Collective::broadcast;
  for (int r = 1; r < size(); ++r) {
    const LocalCall& call = calls[r];
    const bool fits = call.collective == first.collective && call.op == first.op && call.root == first.root &&
                      (!one_shape || same_kind(call.inputs[0], first.inputs[0]));
    if (!fits) fail_mismatch(0, to_string(first), r, to_string(call));
  }
  if (one_shape || first.collective == Collective::barrier) return;
  // The data that rank `from` has for rank `to` must match the tensor in which `to` receives them.
  for (int to = 0; to < size(); ++to) {
    for (int from = 0; from < size(); ++from) {
      const bool is_gather = first.collective == Collective::all_gather;
      const bool is_scatter = first.collective == Collective::reduce_scatter;
      const at::Tensor& input = calls[from].inputs[is_gather ? 0 : to];
      const at::Tensor& output = calls[to].outputs[is_scatter ? 0 : from];
      if (first.collective == Collective::all_to_all && is_empty(input) && is_empty(output)) continue;
      if (same_kind(input, output)) continue;
      const std::string name = to_string(LocalCall{first.collective, first.op, first.root, {}, {}});
      fail_mismatch(from, fmt::format("{} with {} for rank {}", name, shape_text(input), to), to,
                    fmt::format("{} with room for {} from rank {}", name, shape_text(output), from));
    }
  }
}

bool LocalGroup::is_work_for_one() const {
  const Collective collective = calls[0].collective;
  if (collective == Collective::barrier) return true;
  if (collective == Collective::all_reduce && !share_memory_order(calls)) return true;
  if (any_on_device(calls)) return true;  // one rank only launches the work, so a second hand-over is not worth it
  int64_t bytes = 0;
  for (const LocalCall& call : calls)
    for (const at::Tensor& input : call.inputs)
      if (input.defined()) bytes += static_cast<int64_t>(input.nbytes());
  return bytes <= kWorkForOne;
}

void LocalGroup::work(int rank) {
  const at::NoGradGuard no_grad;
  LocalCall& mine = calls[rank];
  switch (mine.collective) {
    case Collective::all_reduce: reduce_slice(calls, rank); break;
    case Collective::all_gather:
      for (int r = 0; r < size(); ++r) copy_values(calls[r].inputs[0], mine.outputs[r]);
      break;
    case Collective::reduce_scatter: {
      std::vector<const at::Tensor*> inputs;
      for (const LocalCall& call : calls) inputs.push_back(&call.inputs[rank]);
      if (!is_empty(mine.outputs[0])) reduce_tensors(mine.op, inputs, mine.outputs[0]);
      break;
    }
    case Collective::all_to_all:
      for (int r = 0; r < size(); ++r)
        if (!is_empty(calls[r].inputs[rank])) copy_values(calls[r].inputs[rank], mine.outputs[r]);
      break;
    case Collective::broadcast: copy_values(calls[mine.root].inputs[0], mine.outputs[0]); break;
    case Collective::barrier: break;
  }
}

void LocalGroup::work_of_all() {
  if (calls[0].collective == Collective::all_reduce && !share_memory_order(calls)) {
    const at::NoGradGuard no_grad;
    reduce_mixed(calls);
    return;
  }
  for (int rank = 0; rank < size(); ++rank) work(rank);
}

}  // namespace trireme
