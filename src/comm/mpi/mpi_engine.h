// The only thread that calls MPI. Included only by files of this folder that are built with MPI.
#pragma once

#include <ATen/core/Tensor.h>
#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace trireme {

/// One send or receive, or the creation of a communicator.
struct MpiOperation {
  enum class Kind { send, receive, create_communicator } kind = Kind::send;
  MPI_Comm world = MPI_COMM_NULL;  ///< for `create_communicator`: the resulting communicator, once done
  at::Tensor data = {};            ///< contiguous; kept alive until MPI has released it
  int peer = 0;
  int tag = 0;

  // guarded by the engine's mutex, which no annotation here can name
  bool done = false;
  std::string trouble;        ///< why it failed; empty: it has not failed
  bool cancelled = false;     ///< true: one wait must return without it
  ConditionVariable changed;  ///< done or cancelled

  // of the engine's thread alone
  int pieces = 0;           ///< pieces that MPI has not finished, each as long as an int can count
  int error = MPI_SUCCESS;  ///< error of the first piece that failed
};

/// Thread-safe. One object per process, because MPI can be started only once.
class MpiEngine {
 public:
  /// Returns the engine. The first call starts MPI. Throws a run error if MPI does not start.
  static MpiEngine& instance();
  /// Ends MPI together with the other ranks. After expect_no_end() it waits for them for at most 3 s.
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int greatest_tag() const { return greatest_tag_; }

  void start(const std::shared_ptr<MpiOperation>& operation);

  /// Returns true when done, false when cancelled. Throws std::runtime_error if it failed or `limit` has passed.
  bool wait(MpiOperation& operation, std::chrono::milliseconds limit);
  void cancel(MpiOperation& operation);

  /// Declares that no thread waits for the operation any more. A receive without a matching send is cancelled. A send
  /// continues until MPI has finished it.
  void let_go(const std::shared_ptr<MpiOperation>& operation);

  /// Keeps `what` alive until all ranks have ended MPI, or this process no longer waits for that.
  void keep(std::shared_ptr<void> what);

  /// Declares that the run has failed: a rank may hang, and this process must not wait for it at the end.
  void expect_no_end();

 private:
  struct State;
  MpiEngine();
  static void run(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive the engine
  int rank_ = 0, size_ = 1, greatest_tag_ = 0;
  Mutex keeping_;
  std::vector<std::shared_ptr<void>> kept_ TRIREME_GUARDED_BY(keeping_);
};

}  // namespace trireme
