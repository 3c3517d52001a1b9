// The only file that includes the headers of CUDA and of c10d's NCCL.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comm/formulas.h"
#include "comm/group_member.h"
#include "comm/local/reduce_kernels.h"
#include "comm/nccl/nccl.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kLookInterval{20};

c10::intrusive_ptr<c10d::Store> open_store(const WorldOptions& options) {
  const std::chrono::milliseconds limit(std::max<int64_t>(1, int64_t(options.rendezvous_seconds * 1000)));
  if (!options.store_file.empty()) {
    auto store = c10::make_intrusive<c10d::FileStore>(options.store_file + ".nccl", options.size);
    store->setTimeout(limit);
    return store;
  }
  c10d::TCPStoreOptions tcp;
  tcp.port = uint16_t(options.store_is_kept ? options.port : options.port + 1);
  tcp.isServer = options.rank == 0 && !options.store_is_kept;
  tcp.waitWorkers = false;
  tcp.timeout = limit;
  return c10::make_intrusive<c10d::PrefixStore>(options.store_prefix + "nccl",
                                                c10::make_intrusive<c10d::TCPStore>(options.address, tcp));
}

/// What all groups of a world share.
struct NcclWorld {
  c10::intrusive_ptr<c10d::Store> store;
  at::Device device;
  double timeout_seconds;
};

at::ScalarType sum_type(at::ScalarType dtype) { return dtype == at::kBFloat16 ? at::kFloat : dtype; }

class NcclCommunicator final : public GroupMember {
 public:
  /// `id` is the same on every member, and differs from that of every other group that shares a member with it.
  NcclCommunicator(std::shared_ptr<const NcclWorld> world, std::unique_ptr<Communicator> control, std::string id,
                   std::shared_ptr<Tally> parent)
      : GroupMember(control->rank(), std::move(parent)),
        world_(std::move(world)),
        control_(std::move(control)),
        id_(std::move(id)),
        nccl_(c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>(id_, world_->store),
                                                          rank(), size(), c10d::ProcessGroupNCCL::Options::create())) {}

  int size() const override { return control_->size(); }
  void all_reduce(at::Tensor& tensor, ReduceOp op) override;
  void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) override;
  void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) override;
  void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) override;
  void broadcast(at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to, int64_t tag) override;
  at::Tensor receive(int from, int64_t tag) override;
  void barrier() override;
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override;
  void abort(const std::string& reason) override { control_->abort(reason); }
  std::string abort_reason() const override { return control_->abort_reason(); }

 private:
  void require_here(const at::Tensor& tensor, const std::string& operation);
  void throw_if_aborted() const;
  void finish(const c10::intrusive_ptr<c10d::Work>& work, const std::string& doing);
  /// Sends `to[q]` to rank q and receives rank q's part for this rank into `from[q]`. All are contiguous; a tensor
  /// without elements means no data.
  void exchange(std::vector<at::Tensor> to, std::vector<at::Tensor> from, const std::string& doing);
  /// Returns the sum (or maximum) of all ranks' parts for this rank, in rank order.
  at::Tensor reduce_parts(std::vector<at::Tensor> to, ReduceOp op, const std::string& doing);
  at::Tensor nothing(at::ScalarType dtype) const {
    return at::empty({0}, at::TensorOptions(world_->device).dtype(dtype));
  }

  const std::shared_ptr<const NcclWorld> world_;
  const std::unique_ptr<Communicator> control_;
  const std::string id_;
  const c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
};

void NcclCommunicator::require_here(const at::Tensor& tensor, const std::string& operation) {
  require(tensor.defined() && tensor.device() == world_->device, operation,
          fmt::format("tensors must lie on GPU {}", world_->device.index()));
}

void NcclCommunicator::throw_if_aborted() const {
  if (const std::string reason = control_->abort_reason(); !reason.empty())
    fail_run({.where = "", .what = "communication between the workers was stopped", .why = reason, .next = ""});
}

void NcclCommunicator::finish(const c10::intrusive_ptr<c10d::Work>& work, const std::string& doing) {
  const auto end = Clock::now() + std::chrono::duration<double>(world_->timeout_seconds);
  while (!work->isCompleted()) {
    throw_if_aborted();
    if (Clock::now() > end) {
      const Error error(Blame::run,
                        {fmt::format("rank {}, {}", rank(), doing),
                         fmt::format("NCCL has not finished after {} s", world_->timeout_seconds),
                         "a rank hangs, has died, or called something else", "look at the end of the ranks' output"});
      abort(error.what());
      throw error;
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  try {
    work->wait();
  } catch (const std::exception& error) {
    abort(fmt::format("rank {}, {}: {}", rank(), doing, first_line(error)));
    throw_if_aborted();
  }
}

void NcclCommunicator::exchange(std::vector<at::Tensor> to, std::vector<at::Tensor> from, const std::string& doing) {
  const c10::cuda::CUDAGuard guard(world_->device);
  throw_if_aborted();
  finish(nccl_->alltoall(from, to), doing);
}

at::Tensor NcclCommunicator::reduce_parts(std::vector<at::Tensor> to, ReduceOp op, const std::string& doing) {
  const at::Tensor own = to[size_t(rank())];
  std::vector<at::Tensor> from;
  for (int q = 0; q < size(); ++q) from.push_back(at::empty_like(own));
  exchange(std::move(to), from, doing);
  at::Tensor sum = from[0].to(sum_type(own.scalar_type()));
  for (int q = 1; q < size(); ++q) {
    if (op == ReduceOp::sum) sum.add_(from[size_t(q)]);
    else at::maximum_out(sum, sum, from[size_t(q)].to(sum.scalar_type()));
  }
  return sum.to(own.scalar_type());
}

void NcclCommunicator::all_reduce(at::Tensor& tensor, ReduceOp op) {
  const at::NoGradGuard no_grad;
  require_here(tensor, "all_reduce");
  require(can_reduce(tensor.scalar_type()), "all_reduce",
          fmt::format("cannot reduce dtype {}", c10::toString(tensor.scalar_type())));
  const std::string doing = op == ReduceOp::sum ? "all_reduce(sum)" : "all_reduce(max)";
  at::Tensor flat = tensor.contiguous().view({-1});
  std::vector<at::Tensor> chunks;
  for (int64_t q = 0, begin = 0; q < size(); begin += chunks.back().numel(), ++q)
    chunks.push_back(flat.narrow(0, begin, chunk_elements(flat.numel(), size(), int(q))));
  const at::Tensor mine = reduce_parts(chunks, op, doing);
  // the sums are received into the chunks' own memory
  exchange(std::vector<at::Tensor>(size_t(size()), mine), chunks, doing);
  if (!tensor.is_contiguous()) tensor.copy_(flat.view(tensor.sizes()));
  record(all_reduce_bytes(tensor.numel(), tensor.element_size(), size(), rank()), 2 * ring_steps(size()), 0);
}

void NcclCommunicator::all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) {
  const at::NoGradGuard no_grad;
  require(int(outputs.size()) == size(), "all_gather", "needs one output per rank");
  const int64_t bytes = all_gather_bytes(bytes_of_each(outputs), rank());
  require_here(input, "all_gather");
  std::vector<at::Tensor> to, from;
  for (int q = 0; q < size(); ++q) {
    require_here(outputs[size_t(q)], "all_gather");
    to.push_back(input.contiguous());
    from.push_back(outputs[size_t(q)].contiguous());
  }
  exchange(std::move(to), from, "all_gather");
  for (int q = 0; q < size(); ++q)
    if (!outputs[size_t(q)].is_same(from[size_t(q)])) outputs[size_t(q)].copy_(from[size_t(q)]);
  record(bytes, ring_steps(size()), 0);
}

void NcclCommunicator::reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) {
  const at::NoGradGuard no_grad;
  require(int(inputs.size()) == size(), "reduce_scatter", "needs one input per rank");
  require_here(output, "reduce_scatter");
  require(can_reduce(output.scalar_type()), "reduce_scatter",
          fmt::format("cannot reduce dtype {}", c10::toString(output.scalar_type())));
  require(inputs[size_t(rank())].sizes() == output.sizes(), "reduce_scatter",
          "the rank's own input and its output must have one shape");
  std::vector<at::Tensor> to;
  for (const at::Tensor& input : inputs) {
    require_here(input, "reduce_scatter");
    to.push_back(input.contiguous());
  }
  output.copy_(reduce_parts(std::move(to), ReduceOp::sum, "reduce_scatter(sum)"));
  record(reduce_scatter_bytes(bytes_of_each(inputs), rank()), ring_steps(size()), 0);
}

void NcclCommunicator::all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) {
  const at::NoGradGuard no_grad;
  require(int(inputs.size()) == size() && int(outputs.size()) == size(), "all_to_all",
          "needs one input and one output per rank");
  const auto dense = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.contiguous() : nothing(at::kByte);
  };
  std::vector<at::Tensor> to, from;
  for (int q = 0; q < size(); ++q) {
    to.push_back(dense(inputs[size_t(q)]));
    from.push_back(dense(outputs[size_t(q)]));
  }
  exchange(std::move(to), from, "all_to_all");
  for (int q = 0; q < size(); ++q)
    if (outputs[size_t(q)].defined() && !outputs[size_t(q)].is_same(from[size_t(q)]))
      outputs[size_t(q)].copy_(from[size_t(q)]);
  record(all_to_all_bytes(bytes_of_each(inputs), rank()), ring_steps(size()), 0);
}

void NcclCommunicator::broadcast(at::Tensor& tensor, int root) {
  const at::NoGradGuard no_grad;
  require_here(tensor, "broadcast");
  require_rank(root, "broadcast");
  const c10::cuda::CUDAGuard guard(world_->device);
  throw_if_aborted();
  std::vector<at::Tensor> values{tensor.contiguous()};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  if (tensor.numel() > 0) finish(nccl_->broadcast(values, options), fmt::format("broadcast(root {})", root));
  if (!tensor.is_same(values[0])) tensor.copy_(values[0]);
  record(broadcast_bytes(bytes_of(tensor), size(), rank(), root), ring_steps(size()), 0);
}

void NcclCommunicator::send(const at::Tensor& tensor, int to, int64_t tag) {
  require_rank(to, "send");
  require_here(tensor, "send");
  control_->send(tensor.cpu(), to, tag);
  record(to == rank() ? 0 : bytes_of(tensor), one_step(size()), 0);
}

at::Tensor NcclCommunicator::receive(int from, int64_t tag) {
  require_rank(from, "receive");
  const double before = control_->count().wait_seconds;
  const at::Tensor message = control_->receive(from, tag).to(world_->device);
  record(0, 0, control_->count().wait_seconds - before);
  return message;
}

void NcclCommunicator::barrier() {
  c10::cuda::device_synchronize();
  const double before = control_->count().wait_seconds;
  control_->barrier();
  record(0, one_step(size()), control_->count().wait_seconds - before);
}

std::unique_ptr<Communicator> NcclCommunicator::group(std::span<const int> ranks) {
  throw_if_aborted();
  rank_in(ranks);
  const std::vector<int> members(ranks.begin(), ranks.end());
  const std::string id = fmt::format("{}/{}/{}", id_, fmt::join(members, ","), count_request(members));
  return std::make_unique<NcclCommunicator>(world_, control_->group(ranks), id, tally());
}

}  // namespace

bool nccl_available() { return true; }
int nccl_gpus() { return c10::cuda::device_count(); }

std::unique_ptr<Communicator> nccl_communicator(const NcclOptions& options) {
  const int gpus = nccl_gpus();
  if (options.gpu < 0 || options.gpu >= gpus)
    fail_user({"backend nccl", fmt::format("GPU {}", options.gpu), fmt::format("libtorch sees {} here", gpus),
               "start no more processes on a machine than it has GPUs"});
  auto control = gloo_communicator(options.control);
  auto world = std::make_shared<const NcclWorld>(NcclWorld{
      open_store(options.control), at::Device(at::kCUDA, int8_t(options.gpu)), options.control.timeout_seconds});
  return std::make_unique<NcclCommunicator>(std::move(world), std::move(control), "world", nullptr);
}

}  // namespace trireme
