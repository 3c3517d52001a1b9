// Processes that belong together: when one dies all end, and none outlives the process that started them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/line_reader.h"
#include "comm/flight_recorder.h"

namespace trireme {

/// Describes a process to start.
struct MemberStart {
  std::string name;  ///< "rank 3", "host b"
  /// The program and its arguments; the program is searched on PATH unless it contains a slash.
  std::vector<std::string> words;
  /// `words` start this program. It then runs in a fork of this process if that has one thread, which saves the time to
  /// load its libraries. The process is named "trireme-<rank>" (prctl).
  std::optional<int> rank = {};
  std::vector<std::pair<std::string, std::string>> variables = {};  ///< set in its environment
  std::string host = {};                                            ///< of it, or of the ranks that it starts
  std::vector<int> cores = {};                                      ///< to which it is bound; empty: not bound
  std::string prefix = {};  ///< before each of its lines on this process' standard error
  bool own_output = false;  ///< it inherits this process' standard output, so that it can draw a progress bar
  bool recorded = false;  ///< it has a flight recorder (comm/flight_recorder.h), which shows if it is frozen, and where
  std::string input = {};  ///< first line of its standard input, with until_input_ends
  /// It is an agent: a launch on another machine, which signals do not reach through ssh. The end of its standard input
  /// ends it; it reports on its standard error that it is alive.
  bool until_input_ends = false;
};

/// Signal that requests the end of a rank as Ctrl-C does (SIGINT), so that another group continues the run.
inline constexpr int kMakeRoomSignal = SIGUSR1;

/// Ranks that ended without a request and without reporting why: killed, or lost with their machine.
struct LostRanks {
  std::string name;  ///< "rank 2", "host b"
  std::string how;   ///< "was ended by signal 9 (Killed)"
  std::string host;  ///< MemberStart::host
  int count = 1;     ///< 0: all ranks of that host
};

/// Exit code of an agent (a launch on another machine) that lost n of its ranks: kLostRanks + n.
inline constexpr int kLostRanks = 128 + 64;
/// ssh's own exit code: the other machine cannot be reached.
inline constexpr int kHostLost = 255;

/// How the group ended.
struct GroupEnd {
  int exit_code = 0;  ///< 0: all members ended with 0
  /// "rank 2 was ended by signal 9 (Killed) in step 3, forward fc1; its last line: ..."; empty: all ended normally,
  /// the failed one has reported it itself, or it received a signal to end, which rank 0 reports.
  std::string culprit;
  std::optional<int> culprit_rank = {};  ///< set if the culprit is a rank that this process started
  std::vector<LostRanks> lost = {};
  std::vector<std::string> operations = {};  ///< the last operations of a frozen culprit, oldest first
  std::string run_folder = {};      ///< set if the first member could not report what it leaves behind; otherwise empty
  std::string written_folder = {};  ///< of the run, if the first member could report its end; otherwise empty
  double trained_seconds = 0;       ///< since the first step of any member was seen; 0: none was seen
  bool makes_room = false;          ///< make_room_after() requested its end
};

/// Belongs to one thread, which must outlive the members: the system kills them when it ends.
class RankGroup {
 public:
  RankGroup() = default;
  ~RankGroup();  ///< kills the members that still run
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  /// Errors (run): the system refuses to start it.
  void start(const MemberStart& member);

  /// Sets how long members have to end after an interrupt; 6 s unless set.
  void allow_seconds_after_interrupt(double seconds) { seconds_to_finish_ = seconds; }

  /// Requests the end of the group, between two steps, once it has trained for this long, so that another group takes
  /// over.
  void make_room_after(double seconds_of_training) { room_after_ = seconds_of_training; }

  /// Makes this process an agent, on another machine than the user's launch. The end of standard input means that the
  /// user's launch has ended or requests the end of the group. Standard error tells the user's launch that this process
  /// is alive, and whether its ranks train or save the last step.
  void be_agent() { is_agent_ = true; }

  /// Forwards lines until all members have ended. A few seconds after one has failed or frozen (kSilenceSeconds without
  /// a heartbeat), after `interrupted` becomes true, or after an agent's standard input has ended, the remaining
  /// members are ended. All have ended within 10 s, except a rank 0 that writes the last step (train/process_rank.h). A
  /// frozen member is killed once the others have ended.
  GroupEnd wait(const std::atomic<bool>& interrupted);

 private:
  struct Member {
    MemberStart start;
    pid_t pid = 0;   ///< 0: it has ended
    int input = -1;  ///< writing end of its standard input, if closing it ends the member
    std::unique_ptr<LineReader> lines;
    std::string last_line;
    int exit_code = 0, signal = 0;
    bool end_requested = false;  ///< by this process
    std::unique_ptr<FlightRecorder> recorder = {};
    SilenceMeter silence = {};
    uint64_t signs_of_life = 0;  ///< of an agent
    bool trains = false;         ///< it, or one of an agent's ranks, has begun a step
    bool saves = false;          ///< of an agent: one of its ranks saves the last step
    bool interrupted = false;    ///< of an agent: the first of its ranks to end received a signal to end
    std::string frozen = {};     ///< description of how it froze; empty: it is not known to be frozen
  };

  bool read_lines();
  void take_line(Member& member, const std::string& line);
  void read_input();
  bool reap();
  void look_for_training(double now);
  void say_that_it_lives(double now);
  bool look_for_frozen(bool suspicious);
  bool saves_last_step() const;
  void kill_frozen();
  std::string how_ended(const Member& member) const;
  void request_end(int signal);
  void signal_all(int signal);
  static constexpr double kSecondsToFinish = 6;  // a step, and saving the weights
  const Member* culprit() const;
  std::vector<LostRanks> lost() const;
  GroupEnd end() const;

  std::vector<std::unique_ptr<Member>> members_;
  std::vector<const Member*> failed_;  ///< in the order of their ends
  bool is_agent_ = false, input_ended_ = false;
  bool room_requested_ = false;  ///< an agent: by the user's launch
  bool makes_room_ = false;
  std::optional<double> room_after_;
  double training_since_ = 0;  ///< on the steady clock; 0: no member trains yet
  double reported_at_ = 0;     ///< an agent: when it last reported that it is alive
  double seconds_to_finish_ = kSecondsToFinish;
};

}  // namespace trireme
