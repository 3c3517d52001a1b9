#include "comm/direct/direct_communicator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "comm/direct/direct_messages.h"
#include "comm/flight_recorder.h"
#include "comm/formulas.h"
#include "comm/group_member.h"
#include "comm/local/reduce_kernels.h"
#include "comm/rendezvous/text_messages.h"
#include "trireme/error.h"

namespace trireme {
namespace {

at::ScalarType sum_type(at::ScalarType dtype) { return dtype == at::kBFloat16 ? at::kFloat : dtype; }

std::vector<int> all_ranks(const Communicator& communicator) {
  std::vector<int> ranks(size_t(communicator.size()));
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = int(r);
  return ranks;
}

class DirectCommunicator final : public GroupMember {
 public:
  DirectCommunicator(std::unique_ptr<Communicator> control, std::shared_ptr<DeviceLinks> links, double seconds,
                     std::shared_ptr<Tally> parent)
      : GroupMember(control->rank(), std::move(parent)),
        control_(std::move(control)),
        announcements_(control_->group(all_ranks(*control_))),
        links_(std::move(links)),
        seconds_(seconds) {}

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
  bool moves_beside_computing() const override { return size() > 1; }
  FlightRecorder* recorder() override { return flight_recorder(*control_); }
  void work_beside() override;

 private:
  /// Calls `operation` on the control communicator and counts it here too.
  template <class Operation>
  void on_control(const Operation& operation);
  template <class Operation>
  void recorded(const std::string& name, const Operation& operation);
  void require_here(const at::Tensor& tensor, const std::string& operation);
  LinkPatience patience();
  DeviceLink& link();
  DirectMessages& messages();
  /// Every rank sends `to[q]` to rank q, which receives it into its `from`. Contiguous; no elements: nothing is sent.
  void exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from, const std::string& doing);
  /// Returns the sum (or maximum) of all ranks' parts for this rank, in rank order. It may be `to[rank()]`'s memory.
  at::Tensor reduce_parts(const std::vector<at::Tensor>& to, ReduceOp op, const std::string& doing);
  at::Tensor nothing() const { return at::empty({0}, at::TensorOptions(links_->device()).dtype(at::kByte)); }
  at::Tensor dense(const at::Tensor& tensor) const { return tensor.defined() ? tensor.contiguous() : nothing(); }

  const std::unique_ptr<Communicator> control_;
  /// The group for messages(). The constructor makes it, because all ranks must request groups in the same order, and
  /// each begins to send at a time of its own.
  std::unique_ptr<Communicator> announcements_;
  const std::shared_ptr<DeviceLinks> links_;
  const double seconds_;
  std::unique_ptr<DeviceLink> link_;          // made for the first collective
  std::unique_ptr<DirectMessages> messages_;  // made for the first message
};

template <class Operation>
void DirectCommunicator::on_control(const Operation& operation) {
  const CommunicationCount before = control_->count();
  operation(*control_);
  tally()->add(control_->count() - before);
}

template <class Operation>
void DirectCommunicator::recorded(const std::string& name, const Operation& operation) {
  FlightRecorder* const recorder = this->recorder();
  const uint64_t number = recorder ? recorder->begin_operation(name) : 0;
  operation();
  if (recorder) recorder->end_operation(number);  // an operation that failed stays the current one
}

void DirectCommunicator::work_beside() {
  GroupMember::work_beside();
  if (auto* const member = dynamic_cast<GroupMember*>(control_.get())) member->work_beside();
}

void DirectCommunicator::require_here(const at::Tensor& tensor, const std::string& operation) {
  require(tensor.defined() && tensor.device() == links_->device(), operation,
          "tensors must lie on " + links_->device().str());
}

LinkPatience DirectCommunicator::patience() {
  return [control = control_.get(), limit = seconds_, rank = rank()](double waited, const std::string& doing) {
    if (auto* const member = dynamic_cast<GroupMember*>(control)) member->require_all_there(doing);
    if (waited < limit) return;
    const Error error(Blame::run,
                      {fmt::format("rank {}, {}", rank, doing), fmt::format("it has not finished after {} s", limit),
                       "a rank hangs, or called something else", "look at the end of the ranks' output"});
    control->abort(error.what());
    throw error;
  };
}

DeviceLink& DirectCommunicator::link() {
  if (!link_) {
    const std::string id = broadcast_text(*control_, rank() == 0 ? links_->make_id() : "");
    link_ = links_->connect(id, rank(), size(), patience());
  }
  return *link_;
}

DirectMessages& DirectCommunicator::messages() {
  if (!messages_) messages_ = std::make_unique<DirectMessages>(std::move(announcements_), links_, patience());
  return *messages_;
}

void DirectCommunicator::exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                                  const std::string& doing) {
  if (size() == 1) {
    if (from[0].data_ptr() != to[0].data_ptr()) from[0].copy_(to[0]);
    return;
  }
  recorded(fmt::format("{} of {}", doing, shape_text(to[size_t(rank())])), [&] { link().exchange(to, from, doing); });
}

at::Tensor DirectCommunicator::reduce_parts(const std::vector<at::Tensor>& to, ReduceOp op, const std::string& doing) {
  const at::Tensor& own = to[size_t(rank())];
  std::vector<at::Tensor> from;
  {
    const MemoryScope memory(MemoryCategory::buffers);
    for (int q = 0; q < size(); ++q) from.push_back(q == rank() ? own : at::empty_like(own));
  }
  exchange(to, from, doing);
  at::Tensor sum = from[0].to(sum_type(own.scalar_type()));
  for (int q = 1; q < size(); ++q) {
    if (op == ReduceOp::sum) sum.add_(from[size_t(q)]);
    else at::maximum_out(sum, sum, from[size_t(q)].to(sum.scalar_type()));
  }
  return sum.to(own.scalar_type());
}

void DirectCommunicator::all_reduce(at::Tensor& tensor, ReduceOp op) {
  if (tensor.defined() && on_host(tensor)) return on_control([&](Communicator& c) { c.all_reduce(tensor, op); });
  const at::NoGradGuard no_grad;
  require_here(tensor, "all_reduce");
  require(can_reduce(tensor.scalar_type()), "all_reduce",
          fmt::format("cannot reduce dtype {}", c10::toString(tensor.scalar_type())));
  const std::string doing = op == ReduceOp::sum ? "all_reduce(sum)" : "all_reduce(max)";
  if (size() > 1) {
    const at::Tensor flat = tensor.contiguous().view({-1});
    std::vector<at::Tensor> chunks;
    for (int64_t q = 0, begin = 0; q < size(); begin += chunks.back().numel(), ++q)
      chunks.push_back(flat.narrow(0, begin, chunk_elements(flat.numel(), size(), int(q))));
    const at::Tensor sum = reduce_parts(chunks, op, doing);
    // every rank has received its parts of `flat`, so the sums may replace them
    exchange(std::vector<at::Tensor>(size_t(size()), sum), chunks, doing);
    if (!tensor.is_contiguous()) tensor.copy_(flat.view(tensor.sizes()));
  }
  record(all_reduce_bytes(tensor.numel(), tensor.element_size(), size(), rank()), 2 * ring_steps(size()), 0);
}

void DirectCommunicator::all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) {
  if (input.defined() && on_host(input)) return on_control([&](Communicator& c) { c.all_gather(input, outputs); });
  const at::NoGradGuard no_grad;
  require(int(outputs.size()) == size(), "all_gather", "needs one output per rank");
  require_here(input, "all_gather");
  std::vector<at::Tensor> from;
  for (const at::Tensor& output : outputs) {
    require_here(output, "all_gather");
    from.push_back(output.contiguous());
  }
  exchange(std::vector<at::Tensor>(size_t(size()), input.contiguous()), from, "all_gather");
  for (int q = 0; q < size(); ++q)
    if (!outputs[size_t(q)].is_same(from[size_t(q)])) outputs[size_t(q)].copy_(from[size_t(q)]);
  record(all_gather_bytes(bytes_of_each(outputs), rank()), ring_steps(size()), 0);
}

void DirectCommunicator::reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) {
  if (output.defined() && on_host(output))
    return on_control([&](Communicator& c) { c.reduce_scatter(inputs, output); });
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
  // an input must not change, and the sum may be made in its memory
  if (rank() == 0) to[0] = to[0].clone();
  output.copy_(reduce_parts(to, ReduceOp::sum, "reduce_scatter(sum)"));
  record(reduce_scatter_bytes(bytes_of_each(inputs), rank()), ring_steps(size()), 0);
}

void DirectCommunicator::all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) {
  const auto of_host = [](const at::Tensor& tensor) { return tensor.defined() && on_host(tensor); };
  if (std::any_of(inputs.begin(), inputs.end(), of_host) || std::any_of(outputs.begin(), outputs.end(), of_host))
    return on_control([&](Communicator& c) { c.all_to_all(inputs, outputs); });
  const at::NoGradGuard no_grad;
  require(int(inputs.size()) == size() && int(outputs.size()) == size(), "all_to_all",
          "needs one input and one output per rank");
  std::vector<at::Tensor> to, from;
  for (int q = 0; q < size(); ++q) {
    to.push_back(dense(inputs[size_t(q)]));
    from.push_back(dense(outputs[size_t(q)]));
  }
  exchange(to, from, "all_to_all");
  for (int q = 0; q < size(); ++q)
    if (outputs[size_t(q)].defined() && !outputs[size_t(q)].is_same(from[size_t(q)]))
      outputs[size_t(q)].copy_(from[size_t(q)]);
  record(all_to_all_bytes(bytes_of_each(inputs), rank()), ring_steps(size()), 0);
}

void DirectCommunicator::broadcast(at::Tensor& tensor, int root) {
  if (tensor.defined() && on_host(tensor)) return on_control([&](Communicator& c) { c.broadcast(tensor, root); });
  const at::NoGradGuard no_grad;
  require_here(tensor, "broadcast");
  require_rank(root, "broadcast");
  const std::string doing = fmt::format("broadcast(root {})", root);
  if (size() > 1 && tensor.numel() > 0) {
    const at::Tensor values = tensor.contiguous();
    recorded(fmt::format("{} of {}", doing, shape_text(tensor)), [&] { link().broadcast(values, root, doing); });
    if (!tensor.is_same(values)) tensor.copy_(values);
  }
  record(broadcast_bytes(bytes_of(tensor), size(), rank(), root), ring_steps(size()), 0);
}

void DirectCommunicator::send(const at::Tensor& tensor, int to, int64_t tag) {
  require_rank(to, "send");
  if (to == rank()) return on_control([&](Communicator& c) { c.send(tensor, to, tag); });
  if (!tensor.defined() || !on_host(tensor)) require_here(tensor, "send");
  recorded(fmt::format("send to rank {}, tag {}", to, tag),
           [&] { messages().send(tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous(), to, tag); });
  record(bytes_of(tensor), one_step(size()), 0);
}

at::Tensor DirectCommunicator::receive(int from, int64_t tag) {
  require_rank(from, "receive");
  at::Tensor message;
  if (from == rank()) {
    on_control([&](Communicator& c) { message = c.receive(from, tag); });
    return message;
  }
  double waited = 0;
  recorded(fmt::format("receive from rank {}, tag {}", from, tag),
           [&] { message = messages().receive(from, tag, waited); });
  record(0, 0, waited);
  return message;
}

void DirectCommunicator::barrier() {
  nothing().new_zeros({1}).cpu();  // waits for the device
  on_control([](Communicator& c) { c.barrier(); });
}

std::unique_ptr<Communicator> DirectCommunicator::group(std::span<const int> ranks) {
  rank_in(ranks);
  return std::make_unique<DirectCommunicator>(control_->group(ranks), links_, seconds_, tally());
}

}  // namespace

std::unique_ptr<Communicator> direct_communicator(std::unique_ptr<Communicator> control,
                                                  std::shared_ptr<DeviceLinks> links, double seconds) {
  return std::make_unique<DirectCommunicator>(std::move(control), std::move(links), seconds, nullptr);
}

}  // namespace trireme
