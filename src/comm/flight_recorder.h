// What a rank is doing and its last operations with others, in memory that another process can read too: of a rank that
// is frozen, or that was torn down before it could say anything. After PyTorch's flight recorder, which writes such a
// list when a collective times out.
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

/// Environment variable of a rank whose launcher reads its recorder: the descriptor of its memory.
inline constexpr const char* kRecorderVariable = "TRIREME_RECORDER";

/// What can be read of a rank.
struct RankRecord {
  uint64_t heartbeats = 0;  ///< 0: it has not begun
  uint64_t changes = 0;     ///< grows with each step, instruction and operation
  int64_t step = 0;         ///< that it is in or was in last, from 1; 0: none yet
  std::string instruction;  ///< of its program
  std::string long_work;    ///< "planning": of LongWork; empty: none
  /// With other ranks, that it is in (those, where several threads have some); empty: none. Of another instruction than
  /// `instruction`: "... for reduce_gradients bucket 2".
  std::string operation;
  std::vector<std::string> last;  ///< operations, the oldest first, each with its step and instruction
  std::string run_folder;         ///< empty: not known
};

/// Where it stands: "step 3, reduce_gradients bucket 2, in all_reduce(sum) of Float [4], call 7 of ranks 0,1".
std::string standing(const RankRecord& record);
/// With the preposition: "in step 3, ...", "before the first step, planning".
std::string where_of(const std::string& standing);

/// Written to by one process, from any of its threads, and read by any process that has the memory. Some ten
/// nanoseconds each: nothing is allocated or printed. Texts that are too long are cut off.
class FlightRecorder {
 public:
  static constexpr int kOperations = 10;

  /// Where an operation belongs.
  struct Place {
    int64_t step = 0;
    std::string instruction;
  };

  /// Run error: the system gives no memory.
  FlightRecorder();
  /// In memory that another process made: `file` is a descriptor of it, which stays the caller's. Run error: it is
  /// none.
  explicit FlightRecorder(int file);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// A descriptor of the memory, closed with this object and in programs that this process becomes.
  int file() const { return file_; }

  void begin_step(int64_t step);
  void begin_instruction(std::string_view instruction);
  Place place() const;
  void set_long_work(std::string_view what);
  /// Returns its number, for its end.
  uint64_t begin_operation(std::string_view operation);
  void end_operation(uint64_t number);
  void set_run_folder(const std::string& folder);
  void beat();
  /// No heartbeat is to be expected any more.
  void retire();
  /// The longest time that this process was not given to beat: it was stopped. Of the process that writes.
  double longest_pause() const { return longest_pause_; }

  RankRecord read() const;
  uint64_t heartbeats() const;
  /// Seconds between the beginnings of two consecutive steps; 0: there were none.
  double longest_step() const;

 private:
  RecorderPage* page_ = nullptr;
  int file_ = -1;
  Mutex mutex_;  // of those who write
  std::atomic<double> beaten_{0}, longest_pause_{0};
};

/// While this object lives, operations that the calling thread begins belong to this place, and not to where their
/// rank's own thread is.
class OperationsOf {
 public:
  explicit OperationsOf(FlightRecorder::Place place);
  ~OperationsOf();
  OperationsOf(const OperationsOf&) = delete;
  OperationsOf& operator=(const OperationsOf&) = delete;

 private:
  const FlightRecorder::Place place_, *const before_;
};

/// While this object lives the rank does what may take any time, outside of its steps: "planning". Others wait for it
/// as long as it shows signs of life. `recorder`: may be null, else outlives this object, of which there is one at a
/// time.
class LongWork {
 public:
  LongWork(FlightRecorder* recorder, std::string_view what);
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

 private:
  FlightRecorder* const recorder_;
};

/// A thread that beats while this object lives, whatever the rank computes: who does not beat any more is frozen, not
/// slow.
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

/// So long without a heartbeat a rank is called frozen, or the network to it cut. Long beside what a scheduler, a page
/// fault or a lost packet take.
constexpr double kSilenceSeconds = 5;

/// How long nothing has been heard, counted only while this process was awake itself to listen: one that was stopped
/// and goes on accuses nobody. Belongs to one thread, which looks several times a second.
class SilenceMeter {
 public:
  /// `heard`: any number that changes with each sign of life; 0: there was none yet. `now`: of steady_seconds().
  void look(uint64_t heard, double now);
  /// 0 before the first sign.
  double seconds() const { return silent_; }

 private:
  uint64_t heard_ = 0;
  double looked_ = -1, silent_ = 0;
};

/// The recorder of the rank whose end this is; null where ranks are threads of one process: who reads one sees all.
FlightRecorder* flight_recorder(Communicator& communicator);

}  // namespace trireme
