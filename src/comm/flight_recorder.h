// A record of what a rank is doing and of its last operations with other ranks, in memory that another process can
// read. So it can be read even if the rank is frozen or was killed before it could report. Modelled on PyTorch's flight
// recorder, which writes such a list when a collective times out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace trireme {

class Communicator;
struct RecorderPage;

/// Environment variable of a rank whose launcher reads its recorder: the file descriptor of the recorder's memory.
inline constexpr const char* kRecorderVariable = "TRIREME_RECORDER";

/// What can be read about a rank.
struct RankRecord {
  uint64_t heartbeats = 0;  ///< 0: the rank has not begun
  uint64_t changes = 0;     ///< grows with each step, instruction and operation
  int64_t step = 0;         ///< the current or last step, from 1; 0: none yet
  std::string instruction;  ///< the current instruction of the rank's program
  std::string long_work;    ///< for example "planning", see LongWork; empty: none
  /// The current operation with other ranks, or several if several threads have one; empty: none. An operation that
  /// belongs to another instruction than `instruction` names it: "... for reduce_gradients bucket 2".
  std::string operation;
  std::vector<std::string> last;  ///< the last operations, oldest first, each with its step and instruction
  std::string run_folder;         ///< empty: not known
  bool interrupted = false;       ///< the rank ends because it received a signal to end
};

/// Describes where the rank is: "step 3, reduce_gradients bucket 2, in all_reduce(sum) of Float [4], call 7 of ranks
/// 0,1".
std::string standing(const RankRecord& record);
/// Returns `standing` with its preposition: "in step 3, ...", "before the first step, planning".
std::string where_of(const std::string& standing);

/// Written by one process, from any of its threads. Read by any process that has the memory. A call takes some ten
/// nanoseconds: it neither allocates nor prints. Texts that are too long are cut off.
class FlightRecorder {
 public:
  static constexpr int kOperations = 10;

  /// The step and instruction that an operation belongs to.
  struct Place {
    int64_t step = 0;
    std::string instruction;
  };

  /// Throws a run error if the system provides no memory.
  FlightRecorder();
  /// Uses memory that another process made. `file` is its descriptor; it remains the caller's. Throws a run error if it
  /// is not a recorder's memory.
  explicit FlightRecorder(int file);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// A descriptor of the memory. It is closed with this object and on exec.
  int file() const { return file_; }

  void begin_step(int64_t step);
  void begin_instruction(std::string_view instruction);
  Place place() const;
  void set_long_work(std::string_view what);
  /// Returns the operation's number, for end_operation().
  uint64_t begin_operation(std::string_view operation);
  void end_operation(uint64_t number);
  void set_run_folder(const std::string& folder);
  void set_interrupted();
  void beat();
  /// Declares that no further heartbeats will come.
  void retire();
  /// The longest time between two beats, in seconds: this process was stopped or not scheduled. Valid in the writing
  /// process.
  double longest_pause() const { return longest_pause_; }

  RankRecord read() const;
  uint64_t heartbeats() const;
  /// The longest time between the beginnings of two consecutive steps, in seconds; 0 if there were none.
  double longest_step() const;

 private:
  RecorderPage* page_ = nullptr;
  int file_ = -1;
  Mutex mutex_;  // for writers
  std::atomic<double> beaten_{0}, longest_pause_{0};
};

/// While this object exists, operations that the calling thread begins belong to this place, not to the place of the
/// rank's main thread.
class OperationsOf {
 public:
  explicit OperationsOf(FlightRecorder::Place place);
  ~OperationsOf();
  OperationsOf(const OperationsOf&) = delete;
  OperationsOf& operator=(const OperationsOf&) = delete;

 private:
  const FlightRecorder::Place place_, *const before_;
};

/// While this object exists, the rank does work of unlimited duration outside its steps, for example "planning". Other
/// ranks wait for it as long as it shows signs of life. `recorder` may be null; otherwise it must outlive this object.
/// At most one object exists at a time.
class LongWork {
 public:
  LongWork(FlightRecorder* recorder, std::string_view what);
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

 private:
  FlightRecorder* const recorder_;
};

/// A thread that beats while this object exists, whatever the rank computes. A rank whose heartbeat stops is therefore
/// frozen, not slow.
class Heartbeat {
 public:
  explicit Heartbeat(std::shared_ptr<FlightRecorder> recorder);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  const std::shared_ptr<FlightRecorder> recorder_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool stopped_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// After this time without a heartbeat, a rank counts as frozen, or the network to it as cut. Long compared with delays
/// by the scheduler, page faults or lost packets.
constexpr double kSilenceSeconds = 5;

/// Measures how long no sign of life has arrived. Time counts only while this process was itself running: after a stop
/// of this process, no rank is reported as silent. Used by one thread, which calls look() several times a second.
class SilenceMeter {
 public:
  /// `heard`: any number that changes with each sign of life; 0: none yet. `now`: from steady_seconds().
  void look(uint64_t heard, double now);
  /// Seconds of silence. 0 before the first sign.
  double seconds() const { return silent_; }

 private:
  uint64_t heard_ = 0;
  double looked_ = -1, silent_ = 0;
};

/// Returns the recorder of the rank that `communicator` belongs to. Null if ranks are threads of one process.
FlightRecorder* flight_recorder(Communicator& communicator);

}  // namespace trireme
