// A run in which every worker is a process: the messages that the ranks exchange in addition to those of training.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/memory.h"
#include "experiment/process_machines.h"
#include "train/step_records.h"
#include "trireme/backend.h"
#include "trireme/communicator.h"

namespace trireme {

/// The name under which LongWork (comm/flight_recorder.h) reports that rank 0 writes the last checkpoint after the
/// other ranks are lost.
inline constexpr const char* kSavingLastStep = "saving the last step";

/// Processes with equal ids are on one machine and share a steady clock.
std::string machine_id();

/// One rank of the run. Belongs to one thread at a time: the worker's thread while there is one, otherwise the main
/// thread; abort() and the constants may be used by any thread. Rank 0 coordinates: it decides which steps are run and
/// receives their outcomes.
class ProcessRank {
 public:
  /// All ranks must construct it together, because clocks are compared. `backend`: the world's backend, such as "gloo".
  ProcessRank(std::unique_ptr<Communicator> world, std::string backend);

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  Communicator& world() { return *world_; }
  const std::string& backend() const { return backend_; }
  /// Number of cores that all processes together may use at once, shared cores counted once; and the number of
  /// machines.
  int cores() const;
  int machines() const { return int(machines_.cores.size()); }
  /// Measures the connections between neighbours on each machine, and between a rank of each machine and one of the
  /// next, and redistributions among all, for a second or two; the slowest connections count. All ranks must call it
  /// together.
  ProcessMachines measure_machines();
  /// This rank's number among the ranks of its machine.
  int rank_on_machine() const { return rank_on_machine_; }

  /// Counts the GPUs that the processes can use; a GPU of several processes counts once. `ids`: the GPUs of this
  /// process (gpu_ids). All ranks must call it together, before a run on GPUs.
  void count_gpus(const std::vector<std::string>& ids);
  int gpus() const { return gpus_; }  ///< 0 before count_gpus

  /// From now on `backend`, which has between_gpus, moves tensors in memory of the ranks' GPUs. `gpu` is the GPU of
  /// this rank; no other rank uses it. All ranks must call it together, before states() and worker_communicator() are
  /// used.
  void connect_gpus(const BackendKind& backend, c10::Device gpu);

  /// A communicator over all ranks for training state; its messages have tags of their own.
  Communicator& states() { return *states_; }
  /// Returns a communicator over all ranks for a worker; it counts the traffic of training only. All ranks must call it
  /// together.
  std::unique_ptr<Communicator> worker_communicator();

  /// Call it before each run of the process: steps are counted anew. All ranks must have finished the run before.
  void begin_run();
  /// Returns true if 0-based `step` of `steps` must be run. Rank 0's `gate` decided that when rank 0 began the previous
  /// step, so that no rank waits for the answer; the gates of other ranks are not used. Call it for the steps in order.
  /// `ahead`: false if the next step must not be decided now, because this step's evaluation may end the run.
  bool enters(StepGate& gate, int64_t step, int64_t steps, bool ahead);

  /// Rank 0 posts its own outcome, and those of all other ranks for the previous post; for an evaluation, also those
  /// for this post. At that time they have arrived or are about to arrive. Other ranks send theirs and continue. All
  /// ranks must post the same steps and evaluations.
  void post(StepRecords& records, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds);

  /// Rank 0. Replaces the posts that lost ranks will not send. `losses`: by step done, by rank: StepOutcome::loss_sum.
  /// Nothing else is known about their work. Returns false if something before the last step, or the last step's loss,
  /// remains unknown; the last step's evaluation may remain unknown.
  bool post_for_others(StepRecords& records, const std::map<int64_t, std::vector<double>>& losses);

  /// Call it after the last post. Rank 0 posts the remaining outcomes and gets every rank's memory.
  void finish(StepRecords& records, std::vector<MemoryUse>& memory);

  /// Tells rank 0, with the next post, that this rank has received a signal to end. Thread-safe, as is the next
  /// function.
  void request_end() { end_requested_ = true; }
  /// Rank 0. Returns one of the other ranks that has received a signal to end; 0: none is known.
  int other_end_requested() const { return other_end_requested_; }

  /// Ends all ranks, whatever they are doing. The first reason wins.
  void abort(const std::string& reason) { world_->abort(reason); }
  std::string abort_reason() const { return world_->abort_reason(); }

 private:
  void compare_clocks();
  void take_posts(StepRecords& records, size_t left);

  const std::unique_ptr<Communicator> world_;
  std::unique_ptr<Communicator> tensors_;  ///< for workers, if tensors do not travel by world_; otherwise null
  std::unique_ptr<Communicator> states_;
  std::string backend_;
  ProcessMachines machines_;  ///< without links
  int rank_on_machine_ = 0, gpus_ = 0;
  double clock_ahead_ = 0;  ///< seconds by which this machine's steady clock is ahead of rank 0's

  std::atomic<bool> end_requested_ = false;
  std::atomic<int> other_end_requested_ = 0;
  int64_t decided_ = -1;  ///< rank 0: the newest step that was decided; -1: none
  bool ended_ = false;    ///< rank 0: `decided_` was refused

  /// A post of other ranks that rank 0 has not fully received.
  struct Awaited {
    int64_t step = 0;
    bool evaluation = false;
    double begin = 0, end = 0;  ///< of rank 0's own outcome
    int next = 1;               ///< the first rank whose post is outstanding
  };
  std::deque<Awaited> awaited_;
};

}  // namespace trireme
