// The thread that alone calls MPI. Included by the files of this folder that are built with MPI only.
#pragma once

#include <ATen/core/Tensor.h>
#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace trireme {

/// One send or receive, or the making of a communicator.
struct MpiOperation {
  enum class Kind { send, receive, meet } kind = Kind::send;
  MPI_Comm world = MPI_COMM_NULL;  ///< of a meeting: the result, once it is done
  at::Tensor data = {};            ///< contiguous; kept alive until MPI has let go of it
  int peer = 0;
  int tag = 0;

  // guarded by the engine's mutex
  bool done = false;
  std::string trouble;        ///< why it failed; empty: it did not
  bool cancelled = false;     ///< one wait is to return without it
  ConditionVariable changed;  ///< done or cancelled

  // of the engine's thread alone
  int pieces = 0;           ///< that MPI is not through with, each as long as it can count
  int error = MPI_SUCCESS;  ///< of the first piece that failed
};

/// Thread-safe. There is one per process: MPI can be started only once.
class MpiEngine {
 public:
  /// Starts MPI at the first call. Run errors: MPI does not start.
  static MpiEngine& instance();
  /// Ends MPI together with the other ranks. After expect_no_end() it waits for them for some seconds only.
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int greatest_tag() const { return greatest_tag_; }

  void start(const std::shared_ptr<MpiOperation>& operation);

  /// True when done, false when cancelled. Throws std::runtime_error when it failed or `limit` is over.
  bool wait(MpiOperation& operation, std::chrono::milliseconds limit);
  void cancel(MpiOperation& operation);

  /// Nobody waits for it any more. A receive that nothing was sent for is withdrawn; a send stays until MPI is through
  /// with it.
  void let_go(const std::shared_ptr<MpiOperation>& operation);

  /// It lives until all ranks have ended MPI, or this process does not wait for that any more.
  void keep(std::shared_ptr<void> what);

  /// The run has failed: a rank may hang, and must not keep this process.
  void expect_no_end();

 private:
  struct State;
  MpiEngine();
  static void run(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may be left behind
  int rank_ = 0, size_ = 1, greatest_tag_ = 0;
  Mutex keeping_;
  std::vector<std::shared_ptr<void>> kept_ TRIREME_GUARDED_BY(keeping_);
};

}  // namespace trireme
