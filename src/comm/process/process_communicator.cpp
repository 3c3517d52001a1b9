#include "comm/process/process_communicator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/devices/device.h"
#include "base/memory.h"
#include "comm/formulas.h"
#include "comm/local/reduce_kernels.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Long enough to use a link well, short enough to fill a chain of ranks quickly.
constexpr int64_t kSegmentBytes = 1 << 20;

/// Options of host memory for the values of `tensor`: pinned if it is on a CUDA GPU, because copies are faster then.
at::TensorOptions on_host_like(const at::Tensor& tensor) {
  return at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU).pinned_memory(tensor.is_cuda());
}

/// Returns `tensor` itself if the host can read it. Otherwise waits for its values and returns a dense copy of them.
at::Tensor on_the_host(const at::Tensor& tensor) {
  if (!tensor.defined() || on_host(tensor)) return tensor;
  const at::Tensor values = dense(tensor);
  at::Tensor copy = at::empty_strided(values.sizes(), values.strides(), on_host_like(values));
  copy.copy_(values);
  return copy;
}

/// Returns `tensor` itself if data can be received in place, otherwise contiguous memory of the host of its shape.
at::Tensor receivable(const at::Tensor& tensor) {
  return on_host(tensor) && tensor.is_contiguous() ? tensor.detach() : at::empty(tensor.sizes(), on_host_like(tensor));
}

/// True if much more memory is kept than the tensor needs.
bool is_small_part(const at::Tensor& tensor) {
  return double(tensor.storage().nbytes()) > 1.25 * double(tensor.nbytes());
}

const char* name_of(ReduceOp op) { return op == ReduceOp::sum ? "sum" : "max"; }

std::string in_words(const std::vector<int>& ranks) {
  constexpr size_t kNamed = 16;
  if (ranks.size() <= kNamed) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{}..{} ({} of them)", ranks.front(), ranks.back(), ranks.size());
}

/// FNV-1a: the same number for the same text in every process.
int64_t number_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return static_cast<int64_t>(hash);
}

}  // namespace

ProcessCommunicator::ProcessCommunicator(std::shared_ptr<ProcessWorld> world, std::vector<int> world_ranks, int rank,
                                         int64_t id, std::shared_ptr<Tally> parent)
    : GroupMember(rank, std::move(parent)),
      world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      members_(in_words(world_ranks_)),
      id_(id) {}

void ProcessCommunicator::work_beside() {
  GroupMember::work_beside();
  world_->work_beside(id_);
}

// ---- parts of a collective ----

ProcessCommunicator::Call ProcessCommunicator::begin(std::string name, const at::Tensor& alike) {
  world_->throw_if_aborted();
  Call call;
  call.text = alike.defined() ? name + " of " + shape_text(alike) : name;
  call.name = std::move(name);
  call.number = ++calls_;
  call.whole = described(call.text, call.number);
  if (size() > 1) call.recorded = world_->recorder().begin_operation(call.whole);
  return call;
}

std::string ProcessCommunicator::described(const std::string& call, int64_t number) const {
  return fmt::format("{}, call {} of ranks {}", call, number, members_);
}

void ProcessCommunicator::give(Call& call, int to, const at::Tensor& part) {
  FrameHeader header;
  header.kind = FrameKind::collective;
  header.group = id_;
  header.tag = call.number;
  const at::Tensor data = part.defined() ? on_the_host(part.detach()).contiguous() : part;
  header.describe(data);
  header.set_text(call.text);
  const int peer = world_ranks_[to];
  if (auto transfer = world_->post(header, data, peer, call.whole))
    call.sends.push_back({std::move(transfer), peer, {}, {}});
}

void ProcessCommunicator::check_call(const Call& call, int from, const FrameHeader& header, const at::Tensor& target) {
  FrameHeader expected;
  expected.set_text(call.text);
  const std::string theirs = header.text;
  const int peer = world_ranks_[from];
  if (header.tag != call.number || theirs != expected.text)
    world_->fail_mismatch(call.whole, peer, described(theirs, header.tag));
  if (header.matches(target)) return;
  const std::string sent = header.bytes == 0 ? "nothing" : header.shape_text();
  world_->fail_mismatch(
      described(fmt::format("{} with room for {} from rank {}", call.name, shape_text(target), peer), call.number),
      peer, described(fmt::format("{} with {} for rank {}", call.name, sent, world_ranks_[rank()]), header.tag));
}

void ProcessCommunicator::want(Call& call, int from, const at::Tensor& target) {
  const int peer = world_ranks_[from];
  const Arrival arrival = world_->take(peer, FrameKind::collective, id_, call.number, call.whole, call.waited);
  check_call(call, from, arrival.header, target);
  if (is_empty(target)) return;
  Call::Pending part{nullptr, peer, target, {}};
  part.received = receivable(target);
  part.transfer = world_->fetch(arrival, flat_view(part.received), peer, call.whole);
  call.parts.push_back(std::move(part));
}

void ProcessCommunicator::receive_parts(Call& call) {
  for (Call::Pending& part : call.parts) {
    world_->finish(std::move(part.transfer), part.peer, call.whole);
    if (!part.received.is_alias_of(part.target)) part.target.copy_(part.received);
  }
  call.parts.clear();
}

void ProcessCommunicator::end(Call& call, int64_t bytes, int64_t steps) {
  for (Call::Pending& sent : call.sends) world_->finish(std::move(sent.transfer), sent.peer, call.whole);
  world_->throw_if_aborted();
  if (size() > 1) world_->recorder().end_operation(call.recorded);
  record(bytes, steps, call.waited);
}

/// `output` = the sum (or maximum) of the other ranks' parts for this rank and `own`, in rank order. All tensors are
/// contiguous. `output` may be `own`.
void ProcessCommunicator::reduce_parts(Call& call, ReduceOp op, const at::Tensor& own, const at::Tensor& output) {
  at::Tensor scratch;
  {
    const MemoryScope memory(MemoryCategory::buffers);
    std::vector<int64_t> shape = output.sizes().vec();
    shape.insert(shape.begin(), size() - 1);
    scratch = at::empty(shape, output.options());
  }
  std::vector<const void*> inputs(size());
  for (int q = 0, next = 0; q < size(); ++q) {
    if (q == rank()) {
      inputs[q] = own.data_ptr();
      continue;
    }
    const at::Tensor part = scratch.select(0, next++);
    inputs[q] = part.data_ptr();
    want(call, q, part);
  }
  receive_parts(call);
  void* target = output.data_ptr();
  if (output.numel() > 0) reduce(output.scalar_type(), op, inputs, {&target, 1}, output.numel());
}

// ---- collectives ----

void ProcessCommunicator::all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op) {
  const at::NoGradGuard no_grad;
  require(input.defined() && output.defined(), "all_reduce", "the tensors must be defined");
  require(input.sizes() == output.sizes() && input.scalar_type() == output.scalar_type(), "all_reduce",
          "input and output must have one shape and dtype");
  require(can_reduce(input.scalar_type()), "all_reduce",
          fmt::format("cannot reduce dtype {}", c10::toString(input.scalar_type())));
  Call call = begin(fmt::format("all_reduce({})", name_of(op)), input);
  if (size() == 1) {
    if (!output.is_same(input)) output.copy_(input);
    return end(call, 0, 0);
  }
  const at::Tensor source = on_the_host(input.detach()).contiguous();
  const at::Tensor result = receivable(output);
  const at::Tensor in = flat_view(source), out = flat_view(result);

  if (bytes_of(input) <= kInlineBytes) {  // one round: every rank sends its input to all and adds everything
    for (int q = 0; q < size(); ++q)
      if (q != rank()) give(call, q, in);
    reduce_parts(call, op, in, out);
  } else {
    // Round 1: chunk q goes to rank q, which adds. Round 2: rank q sends its sum to all. A sum arrives in `out`, which
    // may be `in`, only after its owner has received this rank's chunk.
    std::vector<at::Tensor> ins, outs;
    for (int64_t q = 0, begin_at = 0; q < size(); ++q) {
      const int64_t length = chunk_elements(in.numel(), size(), static_cast<int>(q));
      ins.push_back(in.narrow(0, begin_at, length));
      outs.push_back(out.narrow(0, begin_at, length));
      begin_at += length;
    }
    for (int q = 0; q < size(); ++q)
      if (q != rank()) give(call, q, ins[q]);
    reduce_parts(call, op, ins[rank()], outs[rank()]);
    for (int q = 0; q < size(); ++q)
      if (q != rank()) give(call, q, outs[rank()]);
    for (int q = 0; q < size(); ++q)
      if (q != rank()) want(call, q, outs[q]);
    receive_parts(call);
  }
  if (!result.is_alias_of(output)) output.copy_(result);
  end(call, all_reduce_bytes(input.numel(), input.element_size(), size(), rank()), 2 * ring_steps(size()));
}

void ProcessCommunicator::all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) {
  const at::NoGradGuard no_grad;
  require(static_cast<int>(outputs.size()) == size() && input.defined(), "all_gather", "needs one output per rank");
  Call call = begin("all_gather");
  const at::Tensor given = size() > 1 ? on_the_host(input.detach()) : input;
  for (int q = 0; q < size(); ++q)
    if (q != rank()) give(call, q, given);
  for (int q = 0; q < size(); ++q)
    if (q != rank()) want(call, q, outputs[q]);
  if (!is_empty(input) && !outputs[rank()].is_same(input)) outputs[rank()].copy_(input);
  receive_parts(call);
  end(call, all_gather_bytes(bytes_of_each(outputs), rank()), ring_steps(size()));
}

void ProcessCommunicator::reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) {
  const at::NoGradGuard no_grad;
  require(static_cast<int>(inputs.size()) == size() && output.defined(), "reduce_scatter", "needs one input per rank");
  require(can_reduce(output.scalar_type()), "reduce_scatter",
          fmt::format("cannot reduce dtype {}", c10::toString(output.scalar_type())));
  const at::Tensor& mine = inputs[rank()];
  require(mine.defined() && mine.sizes() == output.sizes() && mine.scalar_type() == output.scalar_type(),
          "reduce_scatter", "the rank's own input and its output must have one shape and dtype");
  Call call = begin("reduce_scatter(sum)");
  for (int q = 0; q < size(); ++q)
    if (q != rank()) give(call, q, inputs[q]);
  const at::Tensor result = receivable(output);
  reduce_parts(call, ReduceOp::sum, on_the_host(mine.detach()).contiguous(), result);
  if (!result.is_alias_of(output)) output.copy_(result);
  end(call, reduce_scatter_bytes(bytes_of_each(inputs), rank()), ring_steps(size()));
}

void ProcessCommunicator::all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) {
  const at::NoGradGuard no_grad;
  require(static_cast<int>(inputs.size()) == size() && static_cast<int>(outputs.size()) == size(), "all_to_all",
          "needs one input and one output per rank");
  Call call = begin("all_to_all");
  for (int q = 0; q < size(); ++q)
    if (q != rank()) give(call, q, inputs[q]);
  for (int q = 0; q < size(); ++q)
    if (q != rank()) want(call, q, outputs[q]);
  if (!is_empty(inputs[rank()])) outputs[rank()].copy_(inputs[rank()]);
  receive_parts(call);
  end(call, all_to_all_bytes(bytes_of_each(inputs), rank()), ring_steps(size()));
}

void ProcessCommunicator::broadcast(at::Tensor& tensor, int root) {
  const at::NoGradGuard no_grad;
  require(tensor.defined(), "broadcast", "the tensor must be defined");
  require_rank(root, "broadcast");
  Call call = begin(fmt::format("broadcast(root {})", root), tensor);
  const bool is_root = rank() == root, is_last = (rank() + 1) % size() == root;
  const int before = (rank() + size() - 1) % size(), behind = (rank() + 1) % size();
  const at::Tensor values = receivable(tensor);
  const bool in_place = values.is_alias_of(tensor);
  if (is_root && !in_place) values.copy_(tensor);
  const at::Tensor flat = flat_view(values);
  const int64_t segment = kSegmentBytes / tensor.element_size();
  int64_t at = 0;
  do {  // also once for a tensor without elements, so that all ranks take part
    const at::Tensor part = flat.narrow(0, at, std::min(segment, flat.numel() - at));
    if (!is_root) {
      want(call, before, part);
      receive_parts(call);
    }
    if (!is_last) give(call, behind, part);
    at += segment;
  } while (at < flat.numel());
  if (!is_root && !in_place) tensor.copy_(values);
  end(call, broadcast_bytes(bytes_of(tensor), size(), rank(), root), ring_steps(size()));
}

void ProcessCommunicator::barrier() {
  Call call = begin("barrier");
  // after each round, twice as many ranks are known to have arrived
  for (int distance = 1; distance < size(); distance *= 2) {
    give(call, (rank() + distance) % size(), {});
    want(call, (rank() + size() - distance) % size(), {});
  }
  end(call, 0, one_step(size()));
}

// ---- messages and groups ----

void ProcessCommunicator::send(const at::Tensor& tensor, int to, int64_t tag) {
  const at::NoGradGuard no_grad;
  require_rank(to, "send");
  require(tensor.defined(), "send", "the tensor must be defined");
  FrameHeader header;
  header.kind = FrameKind::message;
  header.group = id_;
  header.tag = tag;
  header.on_gpu = on_host(tensor) ? 0 : 1;
  const at::Tensor data = on_the_host(dense(tensor));
  header.describe(data);
  const std::string doing = fmt::format("send to rank {}, tag {}", world_ranks_[to], tag);
  const uint64_t recorded = world_->recorder().begin_operation(doing);
  world_->post_and_forget(header, data, world_ranks_[to], doing);
  world_->recorder().end_operation(recorded);
  record(to == rank() ? 0 : bytes_of(tensor), one_step(size()), 0);
}

at::Tensor ProcessCommunicator::receive(int from, int64_t tag) {
  const at::NoGradGuard no_grad;
  require_rank(from, "receive");
  const std::string doing = fmt::format("receive from rank {}, tag {}", world_ranks_[from], tag);
  const int peer = world_ranks_[from];
  double waited = 0;
  const uint64_t recorded = world_->recorder().begin_operation(doing);
  Arrival arrival = world_->take(peer, FrameKind::message, id_, tag, doing, waited);
  const bool from_gpu = arrival.header.on_gpu != 0;
  at::Tensor message;
  if (arrival.transfer) {
    message = arrival.tensor;
    world_->finish(std::move(arrival.transfer), peer, doing);
    if (is_small_part(message)) message = message.clone();  // what it is a part of need not be kept for it
  } else {
    const FrameHeader& h = arrival.header;
    message = at::empty_strided({h.sizes, static_cast<size_t>(h.dims)}, {h.strides, static_cast<size_t>(h.dims)},
                                static_cast<at::ScalarType>(h.dtype));
    world_->finish(world_->fetch(arrival, flat_view(message), peer, doing), peer, doing);
  }
  world_->recorder().end_operation(recorded);
  record(0, 0, waited);
  return from_gpu && DeviceScope::current() != kNoDevice ? message.to(worker_place()) : message;
}

std::unique_ptr<Communicator> ProcessCommunicator::group(std::span<const int> ranks) {
  world_->throw_if_aborted();
  const int mine = rank_in(ranks);
  std::vector<int> world_ranks;
  for (const int r : ranks) world_ranks.push_back(world_ranks_[r]);
  // The id follows from what all members know, so they need not communicate to agree on it.
  const std::string members = fmt::format("{}/{}/{}", id_, fmt::join(world_ranks, ","), count_request(world_ranks));
  const int64_t id = number_of(members);
  world_->register_group(id, members);
  return std::make_unique<ProcessCommunicator>(world_, std::move(world_ranks), mine, id, tally());
}

std::optional<MessageBuffers> message_buffers(const Communicator& world) {
  const auto* const between_processes = dynamic_cast<const ProcessCommunicator*>(&world);
  if (!between_processes) return std::nullopt;
  return between_processes->buffers();
}

void check_rank(const WorldOptions& options, const char* backend) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    fail_user({.where = fmt::format("backend {}", backend),
               .what = fmt::format("rank {} of {}", options.rank, options.size),
               .why = "ranks count from 0 to size - 1",
               .next = "check the launcher's rank and world size"});
}

std::unique_ptr<Communicator> communicator_of(std::shared_ptr<ProcessWorld> world) {
  std::vector<int> everyone(size_t(world->size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const int rank = world->rank();
  return std::make_unique<ProcessCommunicator>(std::move(world), std::move(everyone), rank, 0, nullptr);
}

}  // namespace trireme
