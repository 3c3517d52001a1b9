// What workers say to each other. One interface for every backend (threads of one process; processes over gloo or MPI).
//
// A Communicator belongs to one rank and is used by that rank's thread only. A group of one is valid: every operation
// is then a no-op. Every operation throws a run error when another rank has failed or the world was aborted; none
// returns with half a result.
//
// Reductions add in rank order, so every rank gets the same bits whatever the timing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class VirtualTime;

enum class ReduceOp { sum, max };

/// What one rank has done so far through a communicator and the groups made from it. Bytes are those that left this
/// rank by the algorithm's formula in comm/formulas.h (ring all-reduce of S bytes over n ranks: 2(n-1)/n S), steps its
/// rounds of messages, whether or not the backend shares memory.
struct CommunicationCount {
  int64_t bytes_sent = 0;
  int64_t steps = 0;
  int64_t operations = 0;
  double wait_seconds = 0;  ///< blocked until another rank was ready
};

/// True of a tensor that carries nothing to a rank: undefined, or without elements.
inline bool is_empty(const at::Tensor& tensor) { return !tensor.defined() || tensor.numel() == 0; }

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// In place; same shape and dtype on every rank.
  virtual void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::sum) = 0;

  /// As all_reduce, but `input` stays as it is and `output` (same shape and dtype, other memory or the same) gets the
  /// result.
  virtual void all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op = ReduceOp::sum);

  /// `outputs[r]` receives rank r's `input`; it has that rank's shape, shapes may differ between ranks.
  virtual void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) = 0;

  /// `output` = sum over ranks q of q's `inputs[rank()]`. Shapes may differ between r, not between q.
  virtual void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) = 0;

  /// `outputs[q]` = rank q's `inputs[rank()]`. Undefined or empty tensors mean: nothing to say to that rank.
  virtual void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) = 0;

  /// Root's values reach every rank's `tensor`.
  virtual void broadcast(at::Tensor& tensor, int root) = 0;

  /// Returns without waiting for the receiver. The tensor must not be written to afterwards (the receiver may read it
  /// in place). Messages between one pair of ranks with one tag arrive in order.
  virtual void send(const at::Tensor& tensor, int to, int64_t tag) = 0;

  /// Waits for the matching send. The result is this rank's own memory.
  virtual at::Tensor receive(int from, int64_t tag) = 0;

  /// As receive, but the result may be the sender's own memory: for reading only, and for letting go of soon.
  virtual at::Tensor receive_shared(int from, int64_t tag) { return receive(from, tag); }

  virtual void barrier() = 0;

  /// A communicator among `ranks` (of this communicator, ascending, containing rank()). All of them must ask, in the
  /// same order.
  virtual std::unique_ptr<Communicator> group(std::span<const int> ranks) = 0;

  virtual CommunicationCount count() const = 0;

  /// Whether bytes move while this rank computes, so that an operation on another thread (comm/collective_queue.h)
  /// hides behind its work. Threads of one process move them by computing themselves.
  virtual bool moves_beside_computing() const { return false; }

  /// The clocks of a world whose time is a model's (comm/virtual/virtual_time.h); null: seconds are real.
  virtual VirtualTime* virtual_time() const { return nullptr; }
  /// Seconds on the clock of this rank's world; the steady one where seconds are real. Only differences mean anything.
  virtual double now() const;

  /// Ends every pending and later operation of every rank with an error that carries `reason`. Any thread may call it.
  virtual void abort(const std::string& reason) = 0;
  /// Why the world was aborted; empty while it was not.
  virtual std::string abort_reason() const = 0;
};

}  // namespace trireme
