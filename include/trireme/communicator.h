// Communication between workers. One interface for every backend (threads of one process; processes over gloo or MPI).
//
// A Communicator belongs to one rank and is used by that rank's thread only. A group of one is valid: every operation
// is then a no-op. Every operation throws a run error if another rank has failed or the world was aborted. No operation
// returns with a partial result.
//
// Reductions add in rank order, so every rank gets the same bits, whatever the timing.
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

/// What one rank has done so far through a communicator and the groups made from it. Bytes are those that leave this
/// rank, by one formula per operation that all backends use, whether or not the backend shares memory (all-reduce of S
/// bytes over n ranks, by a ring: 2(n-1)/n S). Steps are rounds of messages, by the same formulas (2(n-1)).
struct CommunicationCount {
  int64_t bytes_sent = 0;
  int64_t steps = 0;
  int64_t operations = 0;
  double wait_seconds = 0;  ///< time blocked until another rank was ready
};

/// True if a tensor carries no data to a rank: undefined, or without elements.
inline bool is_empty(const at::Tensor& tensor) { return !tensor.defined() || tensor.numel() == 0; }

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// In place. The tensor must have the same shape and dtype on every rank.
  virtual void all_reduce(at::Tensor& tensor, ReduceOp op = ReduceOp::sum) = 0;

  /// As all_reduce, but `input` is unchanged and `output` receives the result. `output` has the same shape and dtype as
  /// `input`; it may be the same memory.
  virtual void all_reduce_into(const at::Tensor& input, at::Tensor& output, ReduceOp op = ReduceOp::sum);

  /// `outputs[r]` receives rank r's `input` and has its shape. Shapes may differ between ranks.
  virtual void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) = 0;

  /// `output` = sum over all ranks q of q's `inputs[rank()]`. For each r, `inputs[r]` has the same shape on all ranks;
  /// the shapes of `inputs[0]`, `inputs[1]`, ... may differ.
  virtual void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) = 0;

  /// `outputs[q]` = rank q's `inputs[rank()]`. An undefined or empty tensor means: no data for that rank.
  virtual void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) = 0;

  /// Copies root's values into every rank's `tensor`.
  virtual void broadcast(at::Tensor& tensor, int root) = 0;

  /// Returns without waiting for the receiver. The tensor must not be written to afterwards, because the receiver may
  /// read it in place. Messages between one pair of ranks with one tag arrive in order.
  virtual void send(const at::Tensor& tensor, int to, int64_t tag) = 0;

  /// Waits for the matching send. The result is memory of this rank.
  virtual at::Tensor receive(int from, int64_t tag) = 0;

  /// As receive, but the result may be the sender's memory: it is read-only and must be released soon.
  virtual at::Tensor receive_shared(int from, int64_t tag) { return receive(from, tag); }

  virtual void barrier() = 0;

  /// Returns a communicator among `ranks` (ranks of this communicator, ascending, containing rank()). All of these
  /// ranks must call it, in the same order.
  virtual std::unique_ptr<Communicator> group(std::span<const int> ranks) = 0;

  virtual CommunicationCount count() const = 0;

  /// True if bytes move while this rank computes, so that an operation on another thread
  /// overlaps with its work. False for threads of one process, which move bytes by computing.
  virtual bool moves_beside_computing() const { return false; }

  /// The clocks of a world in modelled time, for Trireme's own use (VirtualTime is not public). Null in real time.
  virtual VirtualTime* virtual_time() const { return nullptr; }
  /// Seconds on the clock of this rank's world, which is the steady clock in real time. Only differences have a
  /// meaning.
  virtual double now() const;

  /// Ends every pending and later operation of every rank with an error that contains `reason`. Thread-safe.
  virtual void abort(const std::string& reason) = 0;
  /// Why the world was aborted. Empty if it was not.
  virtual std::string abort_reason() const = 0;
};

}  // namespace trireme
