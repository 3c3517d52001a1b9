#include "comm/local/local_communicator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "base/devices/device.h"
#include "base/text.h"
#include "comm/formulas.h"
#include "comm/local/reduce_kernels.h"
#include "comm/virtual/virtual_time.h"
#include "trireme/error.h"

namespace trireme {

LocalCommunicator::LocalCommunicator(std::shared_ptr<LocalState> world, std::shared_ptr<LocalGroup> group, int rank,
                                     std::shared_ptr<Tally> parent)
    : GroupMember(rank, parent), world_(std::move(world)), group_(std::move(group)), is_of_all_(!parent) {}

LocalCommunicator::~LocalCommunicator() {
  if (VirtualTime* const time = world_->virtual_time(); time && is_of_all_) time->leave();
}

void LocalCommunicator::run_collective(const std::function<void(LocalCall&)>& publish, int64_t bytes, int64_t steps) {
  world_->throw_if_aborted();
  LocalCall& call = group_->calls[rank()];
  call.op = ReduceOp::sum;
  call.root = 0;
  call.bytes = bytes;
  publish(call);
  try {
    record(bytes, steps, run_call());
    if (world_->times_transfers()) world_->sleep_until(group_->over);
  } catch (const std::exception& error) {
    world_->abort(first_line(error));
    throw;
  }
  call.inputs.clear();
  call.outputs.clear();
}

double LocalCommunicator::run_call() {
  const int64_t number = ++calls_;
  const int64_t everyone = number * size();
  double waited = 0;
  if (group_->arrived.fetch_add(1) + 1 == everyone) {
    group_->check_calls();
    if (world_->times_transfers()) group_->over = world_->carried(*group_);
    group_->done_by_one = group_->is_work_for_one();
    if (group_->done_by_one) group_->work_of_all();
    world_->throw_if_aborted();
    world_->advance(group_->released, 1);
  } else {
    waited += world_->wait_for(group_->released, number);
  }
  if (group_->done_by_one) {
    // `freed` must count calls as `released` does; no rank waits for it here.
    if (group_->left.fetch_add(1) + 1 == everyone) group_->freed.fetch_add(1);
    return waited;
  }
  group_->work(rank());
  if (group_->left.fetch_add(1) + 1 == everyone) {
    world_->throw_if_aborted();
    world_->advance(group_->freed, 1);
    return waited;
  }
  return waited + world_->wait_for(group_->freed, number);
}

void LocalCommunicator::all_reduce(at::Tensor& tensor, ReduceOp op) { all_reduce_into(tensor, tensor, op); }

void LocalCommunicator::all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op) {
  require(input.defined() && output.defined(), "all_reduce", "the tensors must be defined");
  require(input.sizes() == output.sizes() && input.scalar_type() == output.scalar_type(), "all_reduce",
          "input and output must have one shape and dtype");
  require(can_reduce(input.scalar_type()), "all_reduce",
          fmt::format("cannot reduce dtype {}", c10::toString(input.scalar_type())));
  run_collective(
      [&](LocalCall& call) {
        call.collective = Collective::all_reduce;
        call.op = op;
        call.inputs.assign(1, input);
        call.outputs.assign(1, output);
      },
      all_reduce_bytes(input.numel(), input.element_size(), size(), rank()), 2 * ring_steps(size()));
}

void LocalCommunicator::all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) {
  require(static_cast<int>(outputs.size()) == size() && input.defined(), "all_gather", "needs one output per rank");
  run_collective(
      [&](LocalCall& call) {
        call.collective = Collective::all_gather;
        call.inputs.assign(1, input);
        call.outputs.assign(outputs.begin(), outputs.end());
      },
      all_gather_bytes(bytes_of_each(outputs), rank()), ring_steps(size()));
}

void LocalCommunicator::reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) {
  require(static_cast<int>(inputs.size()) == size() && output.defined(), "reduce_scatter", "needs one input per rank");
  require(can_reduce(output.scalar_type()), "reduce_scatter",
          fmt::format("cannot reduce dtype {}", c10::toString(output.scalar_type())));
  run_collective(
      [&](LocalCall& call) {
        call.collective = Collective::reduce_scatter;
        call.inputs.assign(inputs.begin(), inputs.end());
        call.outputs.assign(1, output);
      },
      reduce_scatter_bytes(bytes_of_each(inputs), rank()), ring_steps(size()));
}

void LocalCommunicator::all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) {
  require(static_cast<int>(inputs.size()) == size() && static_cast<int>(outputs.size()) == size(), "all_to_all",
          "needs one input and one output per rank");
  run_collective(
      [&](LocalCall& call) {
        call.collective = Collective::all_to_all;
        call.inputs.assign(inputs.begin(), inputs.end());
        call.outputs.assign(outputs.begin(), outputs.end());
      },
      all_to_all_bytes(bytes_of_each(inputs), rank()), ring_steps(size()));
}

void LocalCommunicator::broadcast(at::Tensor& tensor, int root) {
  require(tensor.defined(), "broadcast", "the tensor must be defined");
  require_rank(root, "broadcast");
  run_collective(
      [&](LocalCall& call) {
        call.collective = Collective::broadcast;
        call.root = root;
        call.inputs.assign(1, tensor);
        call.outputs.assign(1, tensor);
      },
      broadcast_bytes(bytes_of(tensor), size(), rank(), root), ring_steps(size()));
}

void LocalCommunicator::barrier() {
  run_collective([](LocalCall& call) { call.collective = Collective::barrier; }, 0, one_step(size()));
}

void LocalCommunicator::send(const at::Tensor& tensor, int to, int64_t tag) {
  require_rank(to, "send");
  require(tensor.defined(), "send", "the tensor must be defined");
  world_->throw_if_aborted();
  const auto there = world_->message_there(group_->world_ranks[rank()], group_->world_ranks[to], bytes_of(tensor));
  world_->post(group_->world_ranks[to], {group_->id, rank(), tag}, tensor, there);
  record(to == rank() ? 0 : bytes_of(tensor), one_step(size()), 0);
}

at::Tensor LocalCommunicator::receive_shared(int from, int64_t tag) {
  require_rank(from, "receive");
  double waited = 0;
  at::Tensor message = world_->take(group_->world_ranks[rank()], {group_->id, from, tag}, waited);
  record(0, 0, waited);
  // A message from another GPU is copied to this worker's GPU. On the same device this returns the message itself.
  return on_host(message) || DeviceScope::current() == kNoDevice ? message : message.to(worker_place());
}

at::Tensor LocalCommunicator::receive(int from, int64_t tag) {
  const at::NoGradGuard no_grad;
  const at::Tensor message = receive_shared(from, tag);
  at::Tensor own = at::empty(message.sizes(), message.options(), message.suggest_memory_format());
  return own.copy_(message);
}

std::unique_ptr<Communicator> LocalCommunicator::group(std::span<const int> ranks) {
  world_->throw_if_aborted();
  const int mine = rank_in(ranks);
  std::vector<int> world_ranks;
  for (const int r : ranks) world_ranks.push_back(group_->world_ranks[r]);
  const int64_t occurrence = count_request(world_ranks);
  auto members = world_->group(group_->id, world_ranks, occurrence);
  return std::make_unique<LocalCommunicator>(world_, std::move(members), mine, tally());
}

}  // namespace trireme
