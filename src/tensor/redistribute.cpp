#include "tensor/redistribute.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "tensor/all_reduce_group.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the view of `local` (which covers `outer`) that covers `box`, both in global indices.
at::Tensor view_of(const at::Tensor& local, const Box& box, const Box& outer) {
  const Box relative = relative_to(box, outer);
  at::Tensor view = local;
  for (size_t d = 0; d < relative.size(); ++d)
    if (relative[d].size() != view.size(d)) view = view.narrow(d, relative[d].begin, relative[d].size());
  return view;
}

void check_local(const at::Tensor& local, const Box& box, const Layout& from, int worker) {
  const Shape shape = shape_of(box);
  if (local.defined() && local.sizes() == at::IntArrayRef(shape)) return;
  check_internal(false, fmt::format("worker {}'s tensor in layout {} has shape {}, not {}", worker, to_string(from),
                                    to_string(shape), local.defined() ? to_string(local.sizes().vec()) : "undefined"));
}

/// Assembles the pieces that arrive at one worker.
class Assembly {
 public:
  Assembly(Box box, bool has_sums) : box_(std::move(box)), has_sums_(has_sums) {}

  void take(const at::Tensor& piece, const TensorTransfer& transfer) {
    if (!result_.defined()) begin(piece);
    if (is_empty(transfer.box)) return;
    at::Tensor target = view_of(result_, transfer.box, box_);
    if (transfer.add) {
      target.add_(piece);
    } else {
      target.copy_(piece);
    }
  }

  /// For a worker that receives no values: returns zeros like `example`.
  at::Tensor zeros_like(const at::Tensor& example) {
    begin(example);
    return finish().zero_();
  }

  at::Tensor finish() { return result_.scalar_type() == dtype_ ? result_ : result_.to(dtype_); }

 private:
  void begin(const at::Tensor& example) {
    dtype_ = example.scalar_type();
    const bool in_float = has_sums_ && (dtype_ == at::kBFloat16 || dtype_ == at::kHalf);
    const at::MemoryFormat format = box_.size() == 4 ? example.suggest_memory_format() : at::MemoryFormat::Contiguous;
    result_ = at::empty(shape_of(box_), example.options().dtype(in_float ? at::kFloat : dtype_), format);
  }

  const Box box_;
  const bool has_sums_;
  at::ScalarType dtype_ = at::kFloat;
  at::Tensor result_;
};

struct Arrivals {
  std::vector<TensorTransfer> transfers;  // to this worker
  bool has_values = false;
  bool has_sums = false;
  bool only_from_itself = true;
};

Arrivals arrivals_at(int worker, const std::vector<TensorTransfer>& transfers) {
  Arrivals arrivals;
  for (const TensorTransfer& transfer : transfers) {
    if (transfer.destination != worker) continue;
    arrivals.transfers.push_back(transfer);
    arrivals.has_values |= !is_empty(transfer.box);
    arrivals.has_sums |= transfer.add;
    arrivals.only_from_itself &= transfer.source == worker;
  }
  return arrivals;
}

void send_parts(const at::Tensor& local, const Box& local_box, int worker, const std::vector<TensorTransfer>& transfers,
                Communicator& world, int64_t tag) {
  for (const TensorTransfer& transfer : transfers) {
    if (transfer.source != worker || transfer.destination == worker) continue;
    const bool is_hint = is_empty(transfer.box);
    world.send(is_hint ? at::empty({0}, local.options()) : view_of(local, transfer.box, local_box),
               transfer.destination, tag);
  }
}

at::Tensor receive_parts(const at::Tensor& local, const Box& local_box, const Box& box, const Arrivals& arrivals,
                         Communicator& world, int64_t tag) {
  const int worker = world.rank();
  const std::vector<TensorTransfer>& transfers = arrivals.transfers;
  if (arrivals.has_values && transfers.size() == 1 && transfers[0].box == box) {
    if (transfers[0].source != worker) return world.receive(transfers[0].source, tag);
    const at::Tensor view = view_of(local, box, local_box);
    return view.contiguous(box.size() == 4 ? local.suggest_memory_format() : at::MemoryFormat::Contiguous);
  }
  Assembly assembly(box, arrivals.has_sums);
  if (!arrivals.has_values)
    return assembly.zeros_like(transfers.empty() ? local : world.receive_shared(transfers[0].source, tag));
  for (const TensorTransfer& transfer : transfers) {
    const bool own = transfer.source == worker;
    assembly.take(own ? view_of(local, transfer.box, local_box) : world.receive_shared(transfer.source, tag), transfer);
  }
  return assembly.finish();
}

}  // namespace

at::Tensor redistribute(const at::Tensor& local, const Layout& from, const Layout& to, const Shape& shape, int worker,
                        Communicator& world, int64_t tag) {
  const at::NoGradGuard no_grad;
  check_internal(world.rank() == worker, "the world's rank is the worker's number");
  const bool holds = from.mesh.index_of(worker) >= 0;
  const Box local_box = holds ? from.box_of(worker, shape) : Box{};
  if (holds) check_local(local, local_box, from, worker);
  if (from == to) return holds ? local : at::Tensor();
  const std::vector<TensorTransfer> transfers = plan_transfers(from, to, shape);
  if (holds) send_parts(local, local_box, worker, transfers, world, tag);
  if (to.mesh.index_of(worker) < 0) return at::Tensor();
  const Box box = to.box_of(worker, shape);
  const Arrivals arrivals = arrivals_at(worker, transfers);
  const bool keeps_all = holds && local_box == box && arrivals.only_from_itself && arrivals.transfers.size() <= 1;
  if (keeps_all && (arrivals.has_values || is_empty(box))) return local;
  return receive_parts(local, local_box, box, arrivals, world, tag);
}

at::Tensor Redistributor::run(const at::Tensor& local, const Layout& from, const Layout& to, const Shape& shape,
                              int64_t tag) {
  const std::vector<int> workers = all_reduce_group(from, to, worker_);
  if (workers.empty()) return redistribute(local, from, to, shape, worker_, world_, tag);
  const at::NoGradGuard no_grad;
  check_local(local, from.box_of(worker_, shape), from, worker_);
  at::Tensor result = at::empty(local.sizes(), local.options(), local.suggest_memory_format());
  group_of(workers).all_reduce_into(local, result);
  return result;
}

Communicator& Redistributor::group_of(const std::vector<int>& workers) {
  std::unique_ptr<Communicator>& group = groups_[workers];
  if (!group) group = world_.group(workers);
  return *group;
}

}  // namespace trireme
